"""Stands in for tfscale.core.restart until it is merged: synchronous training restarts as a gang."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.cluster import ClusterSpec
from tfscale.core.task import Role, Task


def plan_restart(spec: ClusterSpec, strategy: str | None, tasks: Sequence[Task]) -> tuple[Task, ...]:
    if strategy == "MultiWorkerMirroredStrategy":
        return tuple(task for task in spec.tasks if task.role in (Role.CHIEF, Role.WORKER))
    return tuple(tasks)
