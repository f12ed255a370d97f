"""Run of this machine that a list of runs watches, beside others."""

from __future__ import annotations

from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.settings.config import Settings
from tfscale.console.sources.cluster_finder import cluster_of
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.errors import TfscaleError


class WatchedRun:
    """Newest snapshot of a run, or the reason why there is none."""

    def __init__(self, agent: LocalAgent, settings: Settings) -> None:
        self.agent = agent
        self.snapshot: Snapshot | None = None
        self.problem = ""
        """Words with which the run's cluster could not be read or dialled."""
        self._settings = settings

    async def run(self) -> None:
        """Watch until cancelled; a run that cannot be watched has a problem afterwards."""
        try:
            spec = await cluster_of(self.agent, self._settings)
            channels = Channels(spec, insecure=self._settings.insecure)
        except TfscaleError as error:
            self.problem = str(error)
            return
        try:
            await Engine(LiveSource(channels), states(spec)).run(self)
        finally:
            await channels.close()

    def event_folded(self, _event: Event) -> None:
        """Ignore single events. Called by the engine."""

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Keep a snapshot. Called by the engine."""
        self.snapshot = snapshot
