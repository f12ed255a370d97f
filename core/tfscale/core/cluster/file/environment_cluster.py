"""Cluster of `TF_CONFIG`, the variable in which a platform names TensorFlow's tasks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tfscale.core.cluster.cluster_spec import DEFAULT_AGENT_PORT, ClusterError, ClusterSpec, free_address
from tfscale.core.cluster.file.cluster_file import KEYS, parse_cluster
from tfscale.core.cluster.task import Role, Task, parse_role
from tfscale.core.errors import UsageError

_EVALUATOR_PORT = 2222
"""First port that is tried for an evaluator without an address in the file."""


def names_cluster(environment: Mapping[str, str]) -> bool:
    """Return whether there is a `TF_CONFIG` to read a cluster from; True for one that is malformed, which is told then.

    A platform writes one without a cluster for a program that runs alone, and one with a `sparseCluster` for a task
    that is to know its parameter servers alone.
    """
    try:
        document = json.loads(environment.get("TF_CONFIG") or "{}")
    except (ValueError, RecursionError):
        return True
    return not isinstance(document, dict) or bool(document.get("cluster"))


def cluster_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[ClusterSpec, Task | None]:
    """Return the cluster in `TF_CONFIG`, and this host's task; the task is None if `TF_CONFIG` names none.

    Raises ClusterError where `TF_CONFIG` is absent or malformed.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        raise ClusterError("no cluster: TF_CONFIG is not set")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"TF_CONFIG: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ClusterError('TF_CONFIG: must be an object with "cluster" and "task"')
    own_keys = {key: document[key] for key in KEYS if key in document}
    spec = parse_cluster(own_keys, name="tf-config", where="TF_CONFIG", base=Path())
    own = document.get("task")
    if own is None:
        return spec, None
    task = _own_task(own)
    if task == Task(Role.EVALUATOR, 0) and task not in spec.tasks:
        spec = _with_evaluator(spec, task)
    if task not in spec.tasks:
        raise ClusterError(f"TF_CONFIG: task {task} is not in its cluster, which has {', '.join(map(str, spec.tasks))}")
    return spec, task


def _own_task(own: object) -> Task:
    if not isinstance(own, dict) or not isinstance(own.get("type"), str):
        raise ClusterError('TF_CONFIG: task must be an object with "type" and "index"')
    index = own.get("index", 0)
    try:
        return Task(parse_role(own["type"]), int(index))
    except UsageError as error:
        raise ClusterError(f"TF_CONFIG: task: {error}") from None
    except (TypeError, ValueError, OverflowError):
        raise ClusterError(f"TF_CONFIG: task index {index!r} is not a number") from None


def _with_evaluator(spec: ClusterSpec, own: Task) -> ClusterSpec:
    """Add this host's evaluator: TF_CONFIG may leave it out, since no task connects to an evaluator."""
    host, taken = socket.gethostname(), {*spec.tasks.values(), *spec.agents.values()}
    place, agent = (free_address(host, first, taken) for first in (_EVALUATOR_PORT, DEFAULT_AGENT_PORT))
    tasks = dict(sorted({**spec.tasks, own: place}.items()))
    return replace(spec, tasks=tasks, agents={**spec.agents, own: agent})
