"""Cluster of an agent and its place there, by the first that there is: a file, TF_CONFIG, a launcher, none.

Whichever it is, the result is what a cluster file and a flag would give: a spec, a task of it, defaults of settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfscale.agent.host.container import pod_defaults
from tfscale.agent.host.indexed_job import job_cluster
from tfscale.agent.host.launcher import others_unknown
from tfscale.agent.host.own_tasks import given_flags
from tfscale.agent.host.slurm_cluster import step_cluster
from tfscale.agent.host.slurm_step import SlurmStep, grace_in, slurm_step, without_others_step
from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment, names_cluster
from tfscale.core.cluster.file.find_cluster import cluster_file, load_found, no_cluster
from tfscale.core.cluster.local.loopback_cluster import lone_cluster, run_of
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.settings.user_folders import user_state_folder

_ALONE = {"exit_with_task": True, "show_output": True, "log_level": "warning"}
"""Defaults for a program without a cluster: the agent stands in front of its command, and is as little in the way."""
_UNDER_SLURM = {**_ALONE, "restart": True, "ends_with_agent": True, "write_report": True}
"""Defaults in a step of Slurm: no agent follows one that has died, and each program of the step begins anew."""


@dataclass(frozen=True, slots=True)
class OwnCluster:
    """Cluster of an agent, and the agent's place in it."""

    spec: ClusterSpec
    task: Task | None = None
    """Task of this agent; None where flags or the addresses of this host choose it."""
    file: Path | None = None
    """Cluster file of the spec, None without one."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that hold where nobody has chosen others."""
    is_numbered: bool = False
    """True where a launcher numbers the tasks, and flags may give them roles."""
    watched_by: str = ""
    """Command of a console that shows the cluster, for the agent's first line; empty where that is not told."""
    others_unknown: str = ""
    """Words about a launcher that counts the program among others, where no cluster is known; else empty."""


def own_cluster(chosen: Mapping[str, Any], command: Sequence[str], environment: Mapping[str, str]) -> OwnCluster:
    """Return the cluster of this agent; `command` is the program that it is to run. Raises UsageError."""
    environment = without_others_step(environment)
    if (named := chosen.get("cluster")) is not None:
        return OwnCluster(load_cluster(named), file=named)
    if (file := cluster_file(environment)) is not None:
        return OwnCluster(load_found(file), file=file)
    if names_cluster(environment):
        spec, task = cluster_from_environment(environment)
        return OwnCluster(spec, task, defaults=pod_defaults(spec, environment))
    if (step := slurm_step(environment)) is not None:
        return _of_step(step, chosen, environment)
    if (found := job_cluster(chosen, environment)) is not None:
        spec, task = found
        return OwnCluster(spec, task, defaults=pod_defaults(spec, environment), is_numbered=True)
    return OwnCluster(
        _alone(chosen, command, environment),
        defaults=_ALONE,
        watched_by="tfscale-console in another terminal",
        others_unknown=others_unknown(environment),
    )


def _of_step(step: SlurmStep, chosen: Mapping[str, Any], environment: Mapping[str, str]) -> OwnCluster:
    state_dir = (chosen.get("state_dir") or user_state_folder(os.environ)).absolute()
    file, task = step_cluster(step, chosen, state_dir)
    return OwnCluster(
        load_cluster(file),
        task,
        file,
        defaults={**_UNDER_SLURM, "grace": grace_in(environment)},
        is_numbered=True,
        watched_by="" if step.rank else f"tfscale-console --slurm {step.job}",
    )


def _alone(chosen: Mapping[str, Any], command: Sequence[str], environment: Mapping[str, str]) -> ClusterSpec:
    if given := given_flags(chosen):
        raise ClusterError(
            f"{' and '.join(given)} for a task of a cluster, but {no_cluster(environment)}: give --cluster FILE, or "
            f"leave out {' and '.join(given)} to run the program alone"
        )
    if not any(command[:1]):
        raise UsageError(f"no program: give it after --, as in -- python train.py ({no_cluster(environment)})")
    return lone_cluster(chosen.get("run", run_of(command, Path.cwd())))
