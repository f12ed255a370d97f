"""Live source: a stream from every agent, each on its own, so that no agent delays another.

It begins with the frames that the agents have kept, second by second (`sources/catch_up.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.agent_stream import AgentStream, Patience, Streams
from tfscale.console.sources.catch_up import CatchUp
from tfscale.console.sources.host_clock import Clock
from tfscale.console.sources.message_queue import MessageQueue
from tfscale.console.sources.read_timeout import ReadTimeout
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.cluster_spec import ClusterSpec

GATHERED = 0.1
"""Seconds for which a frame may wait for other agents' frames, so that a thousand are handled together."""


class LiveSource:
    """Streams of all agents of the cluster; a stream that ends is opened again."""

    is_live = True

    def __init__(
        self,
        channels: Channels,
        patience: Patience | None = None,
        clock: Callable[[], float] | None = None,
        *,
        known_until: float | None = None,
    ) -> None:
        """Make a source of these agents; what they have kept since `known_until`, Unix seconds, is asked for, too."""
        self._channels = channels
        self._patience = patience or Patience()
        self._clock = clock or Clock()
        self._known_until = known_until

    @property
    def spec(self) -> ClusterSpec:
        return self._channels.spec

    def now(self) -> float:
        return self._clock()

    async def run(self, inbox: Inbox) -> None:
        streams = Streams(
            channels=self._channels,
            patience=self._patience,
            clock=self._clock,
            inbox=inbox,
            known_until=self._known_until,
            catch_up=CatchUp(inbox, self._clock, self.spec.agents),
            messages=MessageQueue(GATHERED),
            read_timeout=ReadTimeout(self._patience.silence),
        )
        async with asyncio.TaskGroup() as group:
            for task in self.spec.agents:
                group.create_task(AgentStream(task, streams).run())
            group.create_task(streams.messages.run())
            group.create_task(streams.read_timeout.run())
            group.create_task(streams.catch_up.run())
