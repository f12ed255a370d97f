"""The live source: one stream from every agent, each on its own, so that one bad agent never holds up another."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import grpc
import grpc.aio
from tfscale.console.channels import Channels, first_line
from tfscale.console.events import AgentDescribed, FrameArrived, LinkChanged, LinkState
from tfscale.console.sources import Clock, Inbox
from tfscale.console.sources.arrivals import Arrivals
from tfscale.console.sources.seconds import tell_seconds
from tfscale.console.sources.silence import Silence
from tfscale.console.wire import calls, frames
from tfscale.core.cluster import ClusterSpec
from tfscale.core.records import SCHEMA_VERSION, Description
from tfscale.core.task import Task


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. A retry waits twice as long as the one before, from `first` to `longest`, less up to half by chance.

    An agent that is back is heard within 3 s: one retry may fail since gRPC, which tries at least every 0.96 s, has not
    found it yet; the next does not.
    """

    first: float = 0.25
    longest: float = 1.75
    silence: float = 2.5
    """Without a frame for this long, the stream is given up and opened again; an agent sends one a second."""


PAST = 600.0
"""Seconds of the past that are asked for at first; an agent keeps as many..."""
PAST_FRAMES = 12_000
"""... but no more frames than this of all agents together."""
TOGETHER = 0.1
"""Seconds that a frame may wait for those of other agents, so that a thousand of them are no thousand turns."""


class LiveSource:
    """Watches all agents of the cluster and tries again whatever ends."""

    def __init__(self, channels: Channels, patience: Patience | None = None) -> None:
        self._channels = channels
        self._patience = patience or Patience()
        self._clock = Clock()

    @property
    def spec(self) -> ClusterSpec:
        return self._channels.spec

    def now(self) -> float:
        return self._clock()

    async def run(self, inbox: Inbox) -> None:
        arrivals, silence = Arrivals(TOGETHER), Silence(self._patience.silence)
        async with asyncio.TaskGroup() as group:
            for task in self.spec.agents:
                watch = _Watch(self._channels, task, self._patience, self._clock, inbox, arrivals, silence)
                group.create_task(watch.run())
            group.create_task(arrivals.run())
            group.create_task(silence.run())
            group.create_task(tell_seconds(inbox, self._clock))


class _LinkError(Exception):
    def __init__(self, state: LinkState, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason


class _Watch:
    """One agent's stream, over as many connections as it takes."""

    def __init__(
        self,
        channels: Channels,
        task: Task,
        patience: Patience,
        clock: Clock,
        inbox: Inbox,
        arrivals: Arrivals,
        silence: Silence,
    ) -> None:
        self._channels = channels
        self._arrivals = arrivals
        self._silence = silence
        self._task = task
        self._patience = patience
        self._clock = clock
        self._inbox = inbox
        self._link: tuple[LinkState, str] | None = None
        self._limit = asyncio.timeout(None)
        self._trouble: _LinkError | None = None
        """Why nothing more is taken of the stream that is there."""
        self._agent: tuple[int, float] | None = None
        self._newest = -1
        self._since = clock() - min(PAST, PAST_FRAMES / len(channels.spec.agents))
        self._was_up = False
        self._is_doubted = False
        """What it said last could not be read: it is up again once something can."""

    async def run(self) -> None:
        self._say(LinkState.CONNECTING)
        delay = self._patience.first
        while True:
            try:
                await self._follow()
            except _LinkError as error:
                # What was heard comes before the end.
                await self._arrivals.taken()
                error = self._trouble or error
                self._say(error.state, error.reason)
                delay = self._patience.longest if error.state is not LinkState.DOWN else delay
            if self._was_up:
                self._was_up, delay = False, self._patience.first
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, self._patience.longest)

    async def _follow(self) -> None:
        call = self._channels.watch(self._task, calls.watch_request(self._since))
        self._limit, self._trouble = asyncio.timeout(None), None
        try:
            async with self._limit:
                while self._trouble is None:
                    self._silence.begin(self._limit)
                    data = await call.read()
                    self._silence.end(self._limit)
                    if not isinstance(data, bytes):
                        raise _LinkError(LinkState.DOWN, "the agent ended the stream")
                    await self._arrivals.put(self._take_in_turn, data)
                raise self._trouble
        except TimeoutError:
            raise _LinkError(LinkState.DOWN, f"silent for {self._patience.silence:.0f} s") from None
        except grpc.aio.AioRpcError as error:
            raise _LinkError(_state_of(error), first_line(error)) from None
        finally:
            self._silence.end(self._limit)
            call.cancel()

    async def _take_in_turn(self, data: bytes) -> None:
        """The past of many agents at once is more than the inbox holds: let it be emptied between them."""
        await self._inbox.room()
        if self._trouble is not None:
            return
        try:
            self._take(calls.reply(data))
        except _LinkError as error:
            self._give_up(error)
        except ValueError as error:
            # The agent keeps it for minutes: asked for again, it would stand before all that comes after it.
            self._since = max(self._since, self._clock())
            self._is_doubted = True
            self._give_up(_LinkError(LinkState.DOWN, f"what it says cannot be read: {error}"))

    def _give_up(self, error: _LinkError) -> None:
        self._trouble = error
        self._silence.cut(self._limit)

    def _take(self, reply: calls.Reply) -> None:
        if reply.schema_version != SCHEMA_VERSION:
            raise _LinkError(
                LinkState.VERSION,
                f"speaks schema {reply.schema_version}, this console {SCHEMA_VERSION}: update the older",
            )
        if reply.description is not None:
            self._meet(reply.description)
        for data in reply.frames:
            self._give(data)

    def _meet(self, description: Description) -> None:
        if description.task != str(self._task):
            raise _LinkError(
                LinkState.REFUSED, f"is the agent of {description.task}: correct [agents] in the cluster file"
            )
        agent = (description.pid, description.started)
        if agent != self._agent:
            self._agent, self._newest = agent, -1
        if not self._is_doubted:
            self._take_for_up()
        self._inbox.put(AgentDescribed(self._clock(), self._task, description))

    def _take_for_up(self) -> None:
        self._was_up, self._is_doubted = True, False
        self._say(LinkState.UP)

    def _give(self, data: bytes) -> None:
        frame = frames.frame(data)
        if self._is_doubted:
            self._take_for_up()
        # A snapshot after a reconnect begins with frames that came before it was cut.
        if frame.sequence > self._newest:
            self._newest, self._since = frame.sequence, frame.at
            self._inbox.put(FrameArrived(self._clock(), self._task, frame, data))

    def _say(self, state: LinkState, reason: str = "") -> None:
        if (state, reason) != self._link:
            self._link = (state, reason)
            self._inbox.put(LinkChanged(self._clock(), self._task, state, reason))


def _state_of(error: grpc.aio.AioRpcError) -> LinkState:
    match error.code():
        case grpc.StatusCode.FAILED_PRECONDITION | grpc.StatusCode.UNIMPLEMENTED:
            return LinkState.VERSION
        case grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNAUTHENTICATED:
            return LinkState.REFUSED
        case _:
            return LinkState.DOWN
