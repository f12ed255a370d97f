"""Construction of the source that the settings name: live agents or a simulation, and the commands for its tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tfscale.console.baselines.baseline_file import BaselineFile, open_baselines
from tfscale.console.engine.source import Source
from tfscale.console.engine.straggler_policy import StragglerPolicy
from tfscale.console.recording.recording_folder import open_recording
from tfscale.console.settings.config import Settings
from tfscale.console.sources.cluster_finder import find_cluster, named_agent
from tfscale.console.sources.live import LiveSource
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulation.simulated import Shape, SimulatedSource
from tfscale.console.sources.simulation.simulated_commands import SimulatedCommands
from tfscale.console.transport.channels import Channels
from tfscale.console.transport.commands import AgentCommands, Commands, NoCommands
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.settings.precedence import outranks

T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, T]]


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """A source, the commands for its tasks, and the channels behind them, if any."""

    source: Source
    commands: Commands
    channels: Channels | None = None
    baselines: BaselineFile | None = None
    """Baselines of earlier runs; None where the cluster is not live."""

    def straggler_policy(self, settings: Settings) -> StragglerPolicy | None:
        """Return this console's policy about slow workers; None if no task can be restarted."""
        channels = self.channels
        if channels is None:
            return None
        why_not = (lambda: "this console only looks (--read-only)") if settings.read_only else channels.why_no_order
        return StragglerPolicy(self.source.spec, AgentCommands(channels), self.source.now, why_not)

    def run(self, job: Job[T]) -> T:
        """Run the job in an event loop of its own, close the channels, and return its result."""
        return asyncio.run(self.run_within(job))

    async def run_within(self, job: Job[T]) -> T:
        """Run the job in the present event loop, close the channels, and return its result."""
        try:
            return await job()
        finally:
            if self.channels is not None:
                await self.channels.close()
            if self.baselines is not None:
                self.baselines.close()


def connect(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> ClusterConnection:
    """Return the source and commands that the settings name; only the agent of `--agent` is dialled.

    `origins` has the place of each setting. Raises UsageError and CommandError.
    """
    if settings.simulate is not None and not outranks(origins, "simulate", "cluster", "agent"):
        settings = replace(settings, simulate=None)
    if settings.simulate is not None:
        return connect_simulated(settings, settings.simulate)
    spec = find_cluster(settings, origins, environment)
    return connect_to(spec, settings, environment, named_agent(settings, origins))


def connect_to(
    spec: ClusterSpec,
    settings: Settings,
    environment: Mapping[str, str],
    entry: Address | None = None,
    *,
    known_until: float | None = None,
) -> ClusterConnection:
    """Return the source and commands of a live cluster; `entry` is the agent that led to it, if one was named.

    `known_until` is the time up to which a recording has it, Unix seconds. Raises SecurityError.
    """
    channels = Channels(spec, insecure=settings.insecure, entry=entry)
    source = LiveSource(channels, known_until=known_until)
    return ClusterConnection(source, AgentCommands(channels), channels, open_baselines(environment))


def connect_simulated(settings: Settings, workers: int) -> ClusterConnection:
    """Return the source and commands of a simulated cluster."""
    shape = Shape(settings.ps or 0, settings.spares or 0, settings.stages or 0)
    source = SimulatedSource(workers, settings.fault, shape, rate=settings.rate)
    return ClusterConnection(source, SimulatedCommands(source.cluster))


def open_replay(path: Path) -> ClusterConnection:
    """Return the recording as a source for the screens. Raises UsageError."""
    return ClusterConnection(Player(open_recording(path)), NoCommands("this is a replay: it is over"))
