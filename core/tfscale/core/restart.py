"""Which tasks restart together: it follows from the strategy, because that decides who can train on without whom."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tfscale.core.cluster import ClusterSpec
from tfscale.core.errors import UsageError
from tfscale.core.task import Role, Task


class RestartError(UsageError):
    """The tasks to restart are none of this cluster's."""


class _Family(Enum):
    ALONE = 1
    SYNCHRONOUS = 2
    PARAMETER_SERVER = 3


_NAMES = (
    ("ParameterServer", _Family.PARAMETER_SERVER),
    ("MultiWorkerMirrored", _Family.SYNCHRONOUS),
    ("CollectiveAllReduce", _Family.SYNCHRONOUS),
    ("Mirrored", _Family.ALONE),
    ("OneDevice", _Family.ALONE),
    ("CentralStorage", _Family.ALONE),
    ("DefaultDistribution", _Family.ALONE),
)
"""Parts of `tf.distribute` class names, the longer before what they contain."""


def plan_restart(spec: ClusterSpec, strategy: str | None, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """All tasks that must restart when `tasks` do, in the cluster's order.

    `strategy` is a `tf.distribute` class name; None or an unknown one is inferred from the cluster's roles. Raises
    RestartError for a task that the cluster has not, and for none at all.
    """
    asked = set(tasks)
    if not asked:
        raise RestartError("no task to restart: name at least one")
    for task in sorted(asked - set(spec.tasks)):
        raise RestartError(f"{task}: the cluster has no such task, only {', '.join(map(str, spec.tasks))}")
    family = _family(spec, strategy)
    planned = {other for task in asked for other in _together(spec, family, task)}
    return tuple(task for task in spec.tasks if task in planned)


def plan_finish(spec: ClusterSpec, strategy: str | None) -> tuple[Task, ...]:
    """All tasks that have nothing more to do, and would not end by themselves, once the lead's has ended well.

    `tf.distribute.Server.join` of a ParameterServer's workers and servers never returns.
    """
    serving = (Role.WORKER, Role.PS) if _family(spec, strategy) is _Family.PARAMETER_SERVER else ()
    return tuple(task for task in spec.tasks if task.role in serving and task != spec.lead)


def _family(spec: ClusterSpec, strategy: str | None) -> _Family:
    for part, family in _NAMES:
        if strategy is not None and part in strategy:
            return family
    roles = [task.role for task in spec.tasks]
    if Role.PS in roles:
        return _Family.PARAMETER_SERVER
    trainers = sum(role in (Role.CHIEF, Role.WORKER) for role in roles)
    return _Family.SYNCHRONOUS if trainers > 1 else _Family.ALONE


def _together(spec: ClusterSpec, family: _Family, task: Task) -> set[Task]:
    if family is _Family.SYNCHRONOUS and task.role in (Role.CHIEF, Role.WORKER):
        return {other for other in spec.tasks if other.role in (Role.CHIEF, Role.WORKER)}
    if family is _Family.PARAMETER_SERVER and task.role is Role.PS:
        return {task, *(other for other in spec.tasks if other.role is Role.CHIEF)}
    return {task}
