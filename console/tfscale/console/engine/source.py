"""Source of events, as the engine knows it: live agents, a recording or a simulation look the same to it."""

from __future__ import annotations

from typing import Protocol

from tfscale.console.engine.inbox import Inbox
from tfscale.core.cluster.cluster_spec import ClusterSpec


class Source(Protocol):
    """Source of the events of a cluster."""

    is_live: bool
    """True where its events happen now, and `now` is a clock."""

    @property
    def spec(self) -> ClusterSpec:
        """Cluster that the events are of."""

    def now(self) -> float:
        """Return the source's present, Unix seconds: the host's clock, or the position of a replay."""

    async def run(self, inbox: Inbox) -> None:
        """Fill the inbox until cancelled, or until there are no more events."""
