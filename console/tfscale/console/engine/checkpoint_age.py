"""Age of the newest checkpoint of a training, by the clock of the host that wrote it, and what may be lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tfscale.console.engine.model import Snapshot
from tfscale.console.history.history import SECONDS
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.restart import plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.text import elapsed

MOST_LOST = 600.0
"""Seconds of training that a profile may put at risk (chosen): savers of most programs run every few minutes."""
RISK = "TensorFlow's profiler often ends the process that it looks at, and all that train with it"

_MOST_ASKED = 8
"""Tasks whose steps are counted: those that train in lock step have the same."""
_COVERED = 10
"""Seconds after a checkpoint by which a step must be known, for the steps since the checkpoint to be counted."""


@dataclass(frozen=True, slots=True)
class Untrained:
    """Training since a checkpoint: `steps` of the program in `seconds` with steps; `step` is the checkpoint's."""

    steps: int
    seconds: float
    step: int | None


def checkpoint_age(snapshot: Snapshot, trainings: Iterable[Sequence[Task]]) -> float | None:
    """Return the age of the newest checkpoint, seconds, of the group without one for longest; None if one is unknown.

    Each element of `trainings` is a group of tasks that train together. Ages are by the clock of the task's host.
    """
    ages = [_age(snapshot, tasks) for tasks in trainings]
    ages_known = [age for age in ages if age is not None]
    return max(ages_known) if ages_known and len(ages_known) == len(ages) else None


def age_of_trainings(snapshot: Snapshot, spec: ClusterSpec, tasks: Sequence[Task]) -> float | None:
    """Return the age, seconds, of the checkpoint to which the trainings of these tasks may go back; None if unknown."""
    return checkpoint_age(snapshot, [plan_restart(spec, snapshot.governing, [task]) for task in tasks])


def profile_refusal(age: float | None) -> str | None:
    """Return why no profile is taken beside a newest checkpoint of this age; None where little can be lost."""
    if age is not None and age <= MOST_LOST:
        return None
    newest = "no checkpoint is known" if age is None else f"the last checkpoint is {elapsed(age)} old"
    return f"{RISK}, and {newest}: have the program save, and ask within {MOST_LOST / 60:.0f} min of that"


def untrained_since(snapshot: Snapshot, tasks: Sequence[Task], age: float | None) -> Untrained | None:
    """Return what the task of `tasks` that knows most has trained in the last `age` seconds; None if unknown."""
    history, findings = snapshot.history, snapshot.findings
    if age is None or history is None:
        return None
    span = min(SECONDS, math.ceil(age))
    counts = [history.seconds(task, snapshot.at).steps for task in tasks[:_MOST_ASKED]]
    known = max(counts, key=lambda steps: np.isfinite(steps).sum(), default=np.array([]))
    since = len(known) - span
    if span >= age and np.isfinite(known[: since + _COVERED]).any():
        steps, seconds = float(np.nansum(known[since:])), float(np.nansum(known[since:] > 0))
    elif findings.steps_per_second:
        steps, seconds = findings.steps_per_second * age, age
    else:
        return None
    count = round(steps * findings.local_steps)
    numbers = [view.summary.global_step for view in snapshot.tasks if view.summary and view.task in tasks]
    newest = max((number for number in numbers if number is not None), default=None)
    return Untrained(count, seconds, None if newest is None or newest < count else newest - count)


def _age(snapshot: Snapshot, tasks: Sequence[Task]) -> float | None:
    youngest, together = math.inf, frozenset(tasks)
    for view in snapshot.tasks:
        probe = view.frame.probe if view.frame else None
        if view.frame is None or probe is None or probe.checkpoint is None or view.task not in together:
            continue
        silent = snapshot.at - view.link.since if view.is_stale and view.link.since is not None else 0.0
        youngest = min(youngest, max(0.0, view.frame.at - probe.checkpoint) + silent)
    return youngest if youngest < math.inf else None
