"""Agents that have kept a run: the real feed and the real stream of each, without a network."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

from tfscale.agent.serving.frame_stream import frame_stream
from tfscale.agent.telemetry.feed import Feed
from tfscale.agent.wire import EncodedFrame, serialized
from tfscale.console.sources.agent_stream import Patience
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.wire.convert import message_of
from tfscale.v1 import agent_pb2, telemetry_pb2


class KeptAgent:
    """One agent, and what it has kept."""

    def __init__(self, description: Description, minutes: int = 10) -> None:
        self.feed = Feed(minutes)
        self.description = description

    def keep(self, frame: Frame, message: bytes | None = None, ahead: float = 0.0) -> None:
        """Keep a frame that was made while its host's clock was so many seconds ahead."""
        data = message or message_of(telemetry_pb2.Frame, frame).SerializeToString()
        rows = sum(len(batch.sequence) for batch in frame.steps)
        self.feed.publish(EncodedFrame(frame.at, rows, data, steady=frame.at - ahead), Milestone.of(frame))


class KeptChannels(Channels):
    """Channels to agents in this process, at a moment that stands still; `ahead` are the clocks of their hosts.

    The addresses of the recorded cluster are not dialled: what answers there, or lets a connection wait, is not ours.
    """

    def __init__(
        self, spec: ClusterSpec, agents: Mapping[Task, KeptAgent], at: float, ahead: Mapping[Task, float] | None = None
    ) -> None:
        super().__init__(spec, insecure=True)
        self._agents, self._at, self._ahead = agents, at, ahead or {}
        self._missing = set(spec.agents) - set(agents)
        self._since: float | None = None
        """Monotonic time since which time goes on; None while it stands still."""

    def watch(self, task: Task, request: agent_pb2.WatchRequest) -> KeptStream:  # type: ignore[override]
        return KeptStream(self._agents.get(task), request, self._at, self._ahead.get(task, 0.0))

    async def find_way(self, task: Task) -> None:
        """Leave the way as it is: there is one."""

    async def lost(self, task: Task, *, is_stranger: bool = False) -> bool:  # noqa: ARG002
        """Note that an agent is out of reach: there is no other way to it."""
        if task in self._missing:
            self._missing.remove(task)
            self._since = None if self._missing else time.monotonic()
        return False

    def source(self, *, goes_on: bool = False) -> LiveSource:
        """Return the live source of a console that comes at that moment, from which on time stands still or goes on.

        It also goes on once all agents that are out of reach are known to be.
        """
        self._since = time.monotonic() if goes_on else None
        return LiveSource(self, Patience(silence=1e6), self._now)

    def _now(self) -> float:
        return self._at if self._since is None else self._at + time.monotonic() - self._since


class KeptStream:
    """Call of one stream."""

    def __init__(self, agent: KeptAgent | None, request: agent_pb2.WatchRequest, now: float, ahead: float) -> None:
        self._replies = None if agent is None else _replies(agent, request, now, ahead)

    async def read(self) -> bytes | None:
        if self._replies is None:
            return None
        with suppress(StopAsyncIteration):
            return serialized(await anext(self._replies))
        return None

    def cancel(self) -> None:
        """End the call."""


def _replies(
    agent: KeptAgent, request: agent_pb2.WatchRequest, now: float, ahead: float
) -> AsyncGenerator[agent_pb2.WatchReply | bytes, None]:
    return frame_stream(
        request,
        schema=SCHEMA_VERSION,
        feed=agent.feed,
        describe=lambda: agent.description,
        placement=lambda: None,
        clock=lambda: now + ahead,
        steady=lambda: now,
    )
