"""Tasks that restart together, and the training that is lost by it: both follow from the family of the strategy."""

from __future__ import annotations

from collections.abc import Iterable

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.strategy import ALONE, DEFAULT, SYNCHRONOUS, Family, family_of, find_strategy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

_READING = frozenset({Role.CHIEF, Role.WORKER, Role.DATAWORKER})
"""Roles that restart with a dispatcher of the tf.data service."""


class RestartError(UsageError):
    """A restart of no task, or of a task that is not in the cluster."""


def governing(probe: ProbeStatus) -> str | None:
    """Return the strategy by which a task depends on other tasks, None while it is not known.

    It is the program's; `DEFAULT.name` once measured steps show that none joins the task's replicas with those of
    other tasks: without a strategy, under one within the process, or one that was made for a single worker.
    """
    if probe.state is not ProbeState.MEASURING or probe.replicas is None or probe.replicas != probe.local_replicas:
        return probe.strategy
    row = find_strategy([probe.strategy or DEFAULT.name])
    return DEFAULT.name if row is not None and row.family in (ALONE, SYNCHRONOUS) else probe.strategy


def plan_restart(spec: ClusterSpec, strategy: str | None, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return all tasks that must restart when `tasks` do, in the cluster's order.

    `strategy` is a `tf.distribute` class name, None while it is not known. Raises RestartError for a task that is not
    in the cluster, and where `tasks` is empty.
    """
    asked = set(tasks)
    if not asked:
        raise RestartError("no task to restart: name at least one")
    for task in sorted(asked - set(spec.tasks)):
        raise RestartError(f"{task}: the cluster has no such task, only {', '.join(map(str, spec.tasks))}")
    family = _family(spec, strategy)
    planned = asked.union(*(_restarting_with(spec, family, role) for role in {task.role for task in asked}))
    return tuple(task for task in spec.tasks if task in planned)


def plan_finish(spec: ClusterSpec, strategy: str | None) -> tuple[Task, ...]:
    """Return all tasks that would not end by themselves, although their work is done, once the lead has ended well."""
    serving = _family(spec, strategy).serving
    return tuple(task for task in spec.tasks if task.role in serving and task != spec.lead)


def keeps_training(spec: ClusterSpec, strategy: str | None, tasks: Iterable[Task]) -> bool:
    """Decide whether a restart of `tasks` loses no training, because other tasks hold it."""
    stateless = _family(spec, strategy).stateless
    return all(task.role in stateless for task in tasks)


def _family(spec: ClusterSpec, strategy: str | None) -> Family:
    return family_of(strategy, (task.role for task in spec.tasks))


def _restarting_with(spec: ClusterSpec, family: Family, role: Role) -> set[Task]:
    if role is Role.DISPATCHER:
        # It alone knows what is read by whom, and keeps that in memory.
        return {other for other in spec.tasks if other.role in _READING}
    if role in family.in_step:
        return {other for other in spec.tasks if other.role in family.in_step}
    if role in family.with_chief:
        return {other for other in spec.tasks if other.role is Role.CHIEF}
    return set()
