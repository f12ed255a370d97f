"""`TF_CONFIG` of one task: the platform's own text if it agrees with the spec, else that text with few changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.task import DATA_SERVICE, MASTER, Role, Task, parse_role
from tfscale.core.errors import UsageError


def tf_config(spec: ClusterSpec, task: Task, given: str = "") -> str:
    """Return `TF_CONFIG` for one task, as JSON.

    A cluster that is made from the spec names evaluators only to an evaluator, and tasks of the tf.data service only to
    tasks of the service. Keys of `given` that tfscale does not know (`task.trial`, `environment`, `job`, `rpc_layer`)
    stay.

    Args:
        spec: the whole cluster.
        task: the task that gets the variable.
        given: `TF_CONFIG` of the platform, empty without one.
    """
    document = _object(given)
    cluster, own = document.get("cluster"), document.get("task")
    chief = MASTER if _says_master(cluster, own) else str(Role.CHIEF)
    is_cluster, is_task = _is_same_cluster(cluster, spec, task), _is_task(own, task)
    if is_cluster and is_task:
        return given
    if not is_cluster:
        cluster = _cluster(spec, task, chief)
    if not is_task:
        name = chief if task.role is Role.CHIEF else str(task.role)
        own = (own if isinstance(own, dict) else {}) | {"type": name, "index": task.index}
    return json.dumps(document | {"cluster": cluster, "task": own})


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _says_master(cluster: object, own: object) -> bool:
    """Decide whether the platform calls the chief `master`: scripts that were written for it expect the name."""
    return (isinstance(cluster, dict) and MASTER in cluster) or (isinstance(own, dict) and own.get("type") == MASTER)


def _is_same_cluster(cluster: object, spec: ClusterSpec, task: Task) -> bool:
    """Decide whether a cluster names the same tasks; whether it names evaluators makes no difference to TensorFlow."""
    unlike = frozenset({Role.EVALUATOR}) if task.role in DATA_SERVICE else DATA_SERVICE | {Role.EVALUATOR}
    wanted = {other: address for other, address in spec.tasks.items() if other.role not in unlike}
    named = _tasks(cluster)
    return named is not None and {other: named[other] for other in named if other.role is not Role.EVALUATOR} == wanted


def _tasks(cluster: object) -> dict[Task, Address] | None:
    """Return the tasks of a cluster, None where it has another form than tfscale reads."""
    if not isinstance(cluster, Mapping) or not all(isinstance(addresses, list) for addresses in cluster.values()):
        return None
    try:
        return {
            Task(parse_role(name), index): parse_address(address)
            for name, addresses in cluster.items()
            for index, address in enumerate(addresses)
        }
    except UsageError:
        return None


def _is_task(own: object, task: Task) -> bool:
    if not isinstance(own, dict):
        return False
    try:
        return Task(parse_role(str(own.get("type"))), int(own.get("index", 0))) == task
    except (UsageError, TypeError, ValueError, OverflowError):
        return False


def _cluster(spec: ClusterSpec, task: Task, chief: str) -> dict[str, list[str]]:
    hidden = frozenset() if task.role in DATA_SERVICE else DATA_SERVICE | ({Role.EVALUATOR} - {task.role})
    cluster: dict[str, list[str]] = {}
    for other, address in spec.tasks.items():
        if other.role not in hidden:
            cluster.setdefault(chief if other.role is Role.CHIEF else str(other.role), []).append(str(address))
    return cluster
