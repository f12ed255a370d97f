"""Construction of the source that the settings name: live agents or a simulation, and the commands for its tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.settings.config import Settings
from tfscale.console.sources import Source
from tfscale.console.sources.live import LiveSource
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulated import SimulatedSource
from tfscale.console.transport.channels import Channels, CommandError, first_line
from tfscale.console.transport.commands import AgentCommands, Commands, NoCommands
from tfscale.console.wire import calls
from tfscale.core.cluster.cluster_spec import (
    Address,
    ClusterSpec,
    Tls,
    cluster_from_environment,
    load_cluster,
    parse_cluster,
)
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import outranks

T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, T]]
_PATIENCE = 5.0
"""Seconds within which the one agent must name the others."""


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """A source, the commands for its tasks, and the channels behind them, if any."""

    source: Source
    commands: Commands
    channels: Channels | None = None

    def run(self, job: Job[T]) -> T:
        """Run the job in an event loop of its own, close the channels, and return its result."""

        async def run_and_close() -> T:
            try:
                return await job()
            finally:
                if self.channels is not None:
                    await self.channels.close()

        return asyncio.run(run_and_close())


def connect(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> ClusterConnection:
    """Return the source and commands that the settings name; only the agent of `--agent` is dialled.

    `origins` has the place of each setting. Raises UsageError and CommandError.
    """
    if settings.simulate is not None and not outranks(origins, "simulate", "cluster", "agent"):
        settings = replace(settings, simulate=None)
    if settings.simulate is not None:
        source = SimulatedSource(settings.simulate, settings.fault, rate=settings.rate)
        return ClusterConnection(source, NoCommands("this is a simulation: its tasks are not there"))
    channels = Channels(find_cluster(settings, origins, environment), insecure=settings.insecure)
    return ClusterConnection(LiveSource(channels), AgentCommands(channels), channels)


def open_replay(settings: Settings, path: Path) -> ClusterConnection:
    """Return the recording as a source for the screens. Raises UsageError."""
    if settings.record is not None:
        raise UsageError("--record: what is replayed is a recording already: leave out --record")
    return ClusterConnection(Player(Recording(path)), NoCommands("this is a replay: it is over"))


def find_cluster(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> ClusterSpec:
    """Return the live cluster that the settings name. Raises UsageError and CommandError."""
    if settings.agent is not None and (settings.cluster is None or outranks(origins, "agent", "cluster")):
        return asyncio.run(ask_agent(settings.agent, _tls(settings), insecure=settings.insecure))
    if settings.cluster is not None:
        return load_cluster(settings.cluster)
    return cluster_from_environment(environment)[0]


def _tls(settings: Settings) -> Tls | None:
    if settings.ca is None or settings.certificate is None or settings.key is None:
        return None
    return Tls(settings.ca, settings.certificate, settings.key)


async def ask_agent(address: Address, tls: Tls | None, *, insecure: bool) -> ClusterSpec:
    """Return the cluster as the agent at `address` knows it. Raises CommandError and SecurityError."""
    # The task of the agent is not known before it answers.
    task = Task(Role.WORKER, 0)
    channels = Channels(ClusterSpec("agent", {task: address}, {task: address}, tls=tls), insecure=insecure)
    try:
        call = channels.stub(task).Describe(calls.describe_request(), timeout=_PATIENCE)
        description = await call
    except grpc.aio.AioRpcError as error:
        raise CommandError(f"--agent {address}: {first_line(error)}; is tfscale-agent running there?") from None
    finally:
        await channels.close()
    spec = parse_cluster(
        json.loads(description.cluster), name=description.run or "cluster", where=f"the agent at {address}", base=Path()
    )
    return replace(spec, tls=tls)
