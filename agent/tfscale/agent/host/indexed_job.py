"""Pods of an indexed Job of Kubernetes, as Kubeflow's Trainer starts them: a cluster by the own pod's name."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfscale.agent.host.task_roles import numbered_tasks
from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task

INDEX = "JOB_COMPLETION_INDEX"
"""Variable with the number of the pod."""
_PODS = "PET_NNODES"
"""Variable with the number of all pods, which Kubeflow's Trainer gives for its torch policy; a Job does not tell it."""
_FIRST_POD = "PET_MASTER_ADDR"
"""Variable with the name of pod 0, beside it; that of the own pod may not resolve yet while the pod starts."""
_PORT = 2222
_MOST = 100_000


def job_cluster(
    chosen: Mapping[str, Any], environment: Mapping[str, str], own_name: str | None = None
) -> tuple[ClusterSpec, Task] | None:
    """Return the cluster of the job's pods, and the task of this one; None where it is not known that there are others.

    `own_name` is the pod's name in full; left out, it follows from that of pod 0, or is asked. Raises ClusterError.
    """
    index, pods = environment.get(INDEX, ""), chosen.get("pods") or _number(environment)
    if not index.isdecimal() or pods < 2:
        return None
    whole = own_name or _beside_the_first(environment.get(_FIRST_POD, ""), index) or socket.getfqdn()
    name, _, domain = whole.partition(".")
    if not name.endswith(f"-{index}") or not domain:
        raise ClusterError(
            f"{INDEX}: pod {index} of {pods} is called {whole}, which does not tell the names "
            f"of the others: give the Job a headless Service as subdomain, so that it is NAME-{index}.SERVICE"
        )
    tasks = numbered_tasks(pods, chosen)
    if int(index) >= pods:
        raise ClusterError(f"{INDEX}: {index} is not one of {pods} pods: give their number with --pods")
    cluster: dict[str, list[str]] = {}
    for number, task in enumerate(tasks):
        host = f"{name.removesuffix(index)}{number}.{domain}"
        cluster.setdefault(task.role, []).append(f"{host}:{_PORT}")
    run = name.removesuffix(f"-{index}")
    return parse_cluster({"cluster": cluster}, name=run, where=INDEX, base=Path()), tasks[int(index)]


def _beside_the_first(first: str, index: str) -> str:
    """Return the name of the pod with this index, by that of pod 0; empty where that name does not tell it."""
    name, dot, domain = first.partition(".")
    return f"{name[:-1]}{index}{dot}{domain}" if name.endswith("-0") and domain else ""


def _number(environment: Mapping[str, str]) -> int:
    text = environment.get(_PODS, "")
    return min(int(text), _MOST) if text.isdecimal() and len(text) < 9 else 0
