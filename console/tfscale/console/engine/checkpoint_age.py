"""Age of the newest checkpoint of a training, by the clock of the host that wrote it, and what may be lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.restart import plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.text import elapsed

MOST_LOST = 600.0
"""Seconds of training that a profile may put at risk (chosen): savers of most programs run every few minutes."""
RISK = "TensorFlow's profiler often ends the process that it looks at, and all that train with it"


def checkpoint_age(snapshot: Snapshot, trainings: Iterable[Sequence[Task]]) -> float | None:
    """Return the age of the newest checkpoint, seconds, of the group without one for longest; None if one is unknown.

    Each element of `trainings` is a group of tasks that train together. Ages are by the clock of the task's host.
    """
    ages = [_age(snapshot, tasks) for tasks in trainings]
    ages_known = [age for age in ages if age is not None]
    return max(ages_known) if ages_known and len(ages_known) == len(ages) else None


def age_for_profile(snapshot: Snapshot, spec: ClusterSpec, tasks: Sequence[Task]) -> float | None:
    """Return the age, seconds, of the checkpoint to which profiles of these tasks may set back; None if unknown."""
    return checkpoint_age(snapshot, [plan_restart(spec, snapshot.governing, [task]) for task in tasks])


def profile_refusal(age: float | None) -> str | None:
    """Return why no profile is taken beside a newest checkpoint of this age; None where little can be lost."""
    if age is not None and age <= MOST_LOST:
        return None
    newest = "no checkpoint is known" if age is None else f"the last checkpoint is {elapsed(age)} old"
    return f"{RISK}, and {newest}: have the program save, and ask within {MOST_LOST / 60:.0f} min of that"


def _age(snapshot: Snapshot, tasks: Sequence[Task]) -> float | None:
    youngest, together = math.inf, frozenset(tasks)
    for view in snapshot.tasks:
        probe = view.frame.probe if view.frame else None
        if view.frame is None or probe is None or probe.checkpoint is None or view.task not in together:
            continue
        silent = snapshot.at - view.link.since if view.is_stale and view.link.since is not None else 0.0
        youngest = min(youngest, max(0.0, view.frame.at - probe.checkpoint) + silent)
    return youngest if youngest < math.inf else None
