"""Choice of the tasks that one process runs: those that its flags name, else those of this host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfscale.agent.host.host_names import own_hosts, own_name
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError

FLAGS = ("task", "role", "index")
"""Options that name tasks."""


def own_tasks(chosen: Mapping[str, Any], spec: ClusterSpec, own: Task | None, file: Path | None) -> tuple[Task, ...]:
    """Return the tasks in the order of the cluster; `own` is that of TF_CONFIG. Raises UsageError."""
    where = f"{file or 'TF_CONFIG'}: it has {', '.join(map(str, spec.tasks))}"
    given = given_flags(chosen)
    if "task" in chosen and len(given) > 1:
        raise UsageError(f"{' and '.join(given)}: give the tasks in one way, as in {where}")
    if "task" in chosen:
        return tuple(sorted({_member(task, spec) for task in chosen["task"]}))
    if given or own is not None:
        return (_member(_one_task(chosen, spec, own, where), spec),)
    if len(spec.tasks) == 1:
        return (spec.lead,)
    hosts = own_hosts(spec)
    if not hosts:
        raise UsageError(
            f"no task of this host: it is called {own_name()}, and no address in [cluster] is its own; give --task, "
            f"as in {where}"
        )
    return tuple(task for task, address in spec.tasks.items() if address.host in hosts)


def given_flags(chosen: Mapping[str, Any]) -> list[str]:
    """Return which of the flags that name tasks were given."""
    return [f"--{name}" for name in FLAGS if name in chosen]


def _one_task(chosen: Mapping[str, Any], spec: ClusterSpec, own: Task | None, where: str) -> Task:
    """Return the task that --role and --index name; where only one is possible, a flag may be left out."""
    role = chosen.get("role", own.role if own else spec.lead.role if len(spec.tasks) == 1 else None)
    if role is None:
        raise UsageError(f"no role: give --role beside --index, or --task, as in {where}")
    index = chosen.get("index", own.index if own is not None and own.role == role else None)
    if index is None and sum(task.role == role for task in spec.tasks) == 1:
        index = 0
    if index is None:
        raise UsageError(f"no index: give --index, the place of this {role} in the cluster's list: {where}")
    return Task(role, index)


def _member(task: Task, spec: ClusterSpec) -> Task:
    if task not in spec.tasks:
        raise UsageError(f"{task}: the cluster has no such task, only {', '.join(map(str, spec.tasks))}")
    return task
