"""Search for the cluster to show: the cluster of the settings, else the nearest.

In this order: `--slurm`, `--agent` or `--cluster`, TF_CONFIG, `cluster.toml` in the working folder or the configuration
folder, the agents that run on this machine.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
from tfscale.console.settings.config import Settings
from tfscale.console.sources.slurm_job import job_cluster
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.wire import calls
from tfscale.core.cluster.cluster_spec import DEFAULT_AGENT_PORT, Address, ClusterError, ClusterSpec, Tls, parse_address
from tfscale.core.cluster.file.cluster_file import load_cluster, read_cluster
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment, names_cluster
from tfscale.core.cluster.file.find_cluster import cluster_file, load_found, no_cluster
from tfscale.core.cluster.local.local_agents import LocalAgent, local_agents
from tfscale.core.cluster.local.loopback_cluster import LOOPBACK
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.settings.precedence import outranks
from tfscale.core.settings.user_folders import user_state_folder

_logger = logging.getLogger(__name__)
_PATIENCE = 5.0
"""Seconds within which the agent of `--agent` must name the others."""


def find_cluster(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> ClusterSpec:
    """Return the live cluster to show. Raises UsageError and CommandError."""
    if (job := _named_job(settings, origins)) is not None:
        return load_cluster(job_cluster(job, user_state_folder(environment)))
    if (entry := named_agent(settings, origins)) is not None:
        return asyncio.run(ask_named_agent(entry, settings))
    if settings.cluster is not None:
        return load_cluster(settings.cluster)
    if (path := cluster_file(environment)) is not None:
        spec = load_found(path)
        _logger.info("the cluster is that of %s", path.absolute())
        return spec
    if names_cluster(environment):
        return cluster_from_environment(environment)[0]
    return _here(settings, environment)


async def ask_named_agent(entry: Address, settings: Settings) -> ClusterSpec:
    """Return the cluster of the agent of `--agent`. Raises CommandError and SecurityError."""
    return await ask_agent(entry, own_tls(settings), insecure=settings.insecure)


def named_agent(settings: Settings, origins: Mapping[str, str]) -> Address | None:
    """Return the address of the agent that is asked for the cluster; None where another setting names that."""
    is_outranked = settings.cluster is not None and not outranks(origins, "agent", "cluster")
    return None if is_outranked or _named_job(settings, origins) is not None else settings.agent


def _named_job(settings: Settings, origins: Mapping[str, str]) -> str | None:
    """Return the job of Slurm whose cluster it is, empty for the only one; None where another setting names that."""
    return settings.slurm if outranks(origins, "slurm", "agent", "cluster") else None


async def cluster_of(agent: LocalAgent, settings: Settings) -> ClusterSpec:
    """Return the cluster of an agent of this machine. Raises UsageError and CommandError."""
    if agent.cluster is not None:
        return replace(load_cluster(Path(agent.cluster)), name=agent.run)
    return await ask_agent(parse_address(agent.address), own_tls(settings), insecure=settings.insecure)


def is_named(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Return True where the settings, a file at hand or TF_CONFIG say which cluster to show."""
    is_given = any(each is not None for each in (settings.simulate, settings.slurm, settings.agent, settings.cluster))
    return is_given or names_cluster(environment) or cluster_file(environment) is not None


def local_runs(environment: Mapping[str, str]) -> list[LocalAgent]:
    """List one agent of each run of this machine."""
    runs = {agent.run_key: agent for agent in reversed(local_agents(environment))}
    return list(reversed(runs.values()))


def _here(settings: Settings, environment: Mapping[str, str]) -> ClusterSpec:
    if runs := local_runs(environment):
        return asyncio.run(cluster_of(_choice(runs), settings))
    try:
        # An agent of another user, or in a container, announces itself elsewhere.
        usual = Address(LOOPBACK, DEFAULT_AGENT_PORT)
        spec = asyncio.run(ask_agent(usual, own_tls(settings), insecure=settings.insecure))
        _logger.info("%s is the run of the agent at %s, which may be another user's", spec.name, usual)
        return spec
    except TfscaleError:
        raise ClusterError(
            f"no cluster: no agent runs on this machine, and {no_cluster(environment)}. Start a program here with "
            "tfscale-console run -- python train.py, name one agent of a cluster with --agent HOST:PORT, or look at a "
            "simulation with --simulate 8"
        ) from None


def _choice(agents: Sequence[LocalAgent]) -> LocalAgent:
    """Return the only agent, else the agent of the run that the operator chooses. Raises UsageError."""
    if len(agents) == 1:
        return agents[0]
    lines = [f"{agent.run:<24}  {agent.address:<21}  {' '.join(agent.command)}"[:118] for agent in agents]
    # A terminal whose output is piped has a script behind it, which answers no question.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        runs = "; ".join(f"{agent.run}: --agent {agent.address}" for agent in agents)
        raise UsageError(f"{len(agents)} runs on this machine, name one ({runs})")
    sys.stderr.writelines(f"{number:>3}  {line}\n" for number, line in enumerate(lines, 1))
    while True:
        sys.stderr.write(f"Which run? 1 to {len(agents)}: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            raise UsageError("no run was chosen")
        if answer.strip().isdecimal() and 1 <= int(answer) <= len(agents):
            return agents[int(answer) - 1]


def own_tls(settings: Settings) -> Tls | None:
    """Return the certificates that the settings name; None without any."""
    if settings.ca is None or settings.certificate is None or settings.key is None:
        return None
    return Tls(settings.ca, settings.certificate, settings.key)


async def ask_agent(address: Address, tls: Tls | None, *, insecure: bool) -> ClusterSpec:
    """Return the cluster that the agent at `address` knows. Raises CommandError and SecurityError."""
    # The task of the agent is not known before it answers.
    task = Task(Role.WORKER, 0)
    channels = Channels(ClusterSpec("agent", {task: address}, {task: address}, tls=tls), insecure=insecure)
    try:
        await channels.learn_name(address)
        call = channels.stub(task).Describe(calls.describe_request(), timeout=_PATIENCE)
        description = await call
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise CommandError(f"--agent {address}: a spare, which holds no task: name the agent of a task") from None
        raise CommandError(f"--agent {address}: {await channels.explain(task, error)}") from None
    finally:
        await channels.close()
    name = description.run or "cluster"
    spec = read_cluster(description.cluster, name=name, where=f"the agent at {address}")
    return replace(spec, tls=tls)
