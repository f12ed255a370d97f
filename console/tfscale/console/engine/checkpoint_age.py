"""Age of the newest checkpoint of a training, by the clock of the host that wrote it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.task import Task


def checkpoint_age(snapshot: Snapshot, trainings: Iterable[Sequence[Task]]) -> float | None:
    """Return the age of the newest checkpoint, seconds, of the group without one for longest; None if one is unknown.

    Each element of `trainings` is a group of tasks that train together. Ages are by the clock of the task's host.
    """
    ages = [_age(snapshot, tasks) for tasks in trainings]
    ages_known = [age for age in ages if age is not None]
    return max(ages_known) if ages_known and len(ages_known) == len(ages) else None


def _age(snapshot: Snapshot, tasks: Sequence[Task]) -> float | None:
    youngest, together = math.inf, frozenset(tasks)
    for view in snapshot.tasks:
        probe = view.frame.probe if view.frame else None
        if view.frame is None or probe is None or probe.checkpoint is None or view.task not in together:
            continue
        silent = snapshot.at - view.link.since if view.is_stale and view.link.since is not None else 0.0
        youngest = min(youngest, max(0.0, view.frame.at - probe.checkpoint) + silent)
    return youngest if youngest < math.inf else None
