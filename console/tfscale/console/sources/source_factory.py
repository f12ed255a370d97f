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
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.settings.config import Settings
from tfscale.console.sources.cluster_finder import find_cluster
from tfscale.console.sources.live import LiveSource
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulation.simulated import SimulatedSource
from tfscale.console.sources.simulation.simulated_commands import SimulatedCommands
from tfscale.console.transport.channels import Channels
from tfscale.console.transport.commands import AgentCommands, Commands, NoCommands
from tfscale.core.cluster.cluster_spec import ClusterSpec
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

        async def run_and_close() -> T:
            try:
                return await job()
            finally:
                if self.channels is not None:
                    await self.channels.close()
                if self.baselines is not None:
                    self.baselines.close()

        return asyncio.run(run_and_close())


def connect(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> ClusterConnection:
    """Return the source and commands that the settings name; only the agent of `--agent` is dialled.

    `origins` has the place of each setting. Raises UsageError and CommandError.
    """
    if settings.simulate is not None and not outranks(origins, "simulate", "cluster", "agent"):
        settings = replace(settings, simulate=None)
    if settings.simulate is not None:
        source = SimulatedSource(settings.simulate, settings.fault, rate=settings.rate)
        return ClusterConnection(source, SimulatedCommands(source.cluster))
    return connect_to(find_cluster(settings, origins, environment), settings, environment)


def connect_to(spec: ClusterSpec, settings: Settings, environment: Mapping[str, str]) -> ClusterConnection:
    """Return the source and commands of a live cluster. Raises SecurityError."""
    channels = Channels(spec, insecure=settings.insecure)
    return ClusterConnection(LiveSource(channels), AgentCommands(channels), channels, open_baselines(environment))


def open_replay(path: Path) -> ClusterConnection:
    """Return the recording as a source for the screens. Raises UsageError."""
    return ClusterConnection(Player(Recording(path)), NoCommands("this is a replay: it is over"))
