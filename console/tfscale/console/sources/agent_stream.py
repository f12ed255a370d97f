"""Stream of one agent: opened again when it ends, its replies become events."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import grpc
import grpc.aio
from tfscale.console.engine.events import AgentDescribed, FrameArrived, LinkChanged, LinkState, MilestoneTold
from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.catch_up import CatchUp
from tfscale.console.sources.message_queue import MessageQueue
from tfscale.console.sources.read_timeout import ReadTimeout
from tfscale.console.transport.channels import Channels
from tfscale.console.wire import calls, frames
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Description, Farewell
from tfscale.core.records.schema import OLDEST_SCHEMA, SCHEMA_VERSION
from tfscale.core.text import clock

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds before each retry, doubled from `first` to `longest`, less up to half by chance.

    A returning agent is heard within 3 s: one retry may fail, since gRPC tries only every 0.96 s to connect; the next
    succeeds.
    """

    first: float = 0.25
    longest: float = 1.75
    silence: float = 2.5
    """Seconds without a frame after which the stream is opened anew; an agent sends one frame a second."""


PAST = 600.0
"""Most seconds of the past in the first request; an agent keeps as many."""
LEAST_PAST = 60.0
"""Least seconds of the past that are requested of any number of agents: rules about steps look back as far."""
PAST_FRAMES = 6_000
"""Frames of the past that are requested of all agents together, if that is more: reading and judging those of 64
tasks took 3.2 s of CPU, and a snapshot for a script (`--once`) must be there within 5 s."""
_OVERLAP = 5.0
"""Seconds that are asked for twice: the clock of an agent's host differs from that of the console's."""
_VACANT = "vacant: the gang is placed on fewer workers"


@dataclass(frozen=True, slots=True)
class Streams:
    """Parts that the streams of all agents share."""

    channels: Channels
    patience: Patience
    clock: Callable[[], float]
    inbox: Inbox
    catch_up: CatchUp
    messages: MessageQueue
    read_timeout: ReadTimeout
    known_until: float | None = None
    """Unix seconds up to which a recording has the past already; None: it is not known."""

    @property
    def past(self) -> float:
        """Seconds of the past that each agent is asked for."""
        unknown = 0.0 if self.known_until is None else self.clock() - self.known_until + _OVERLAP
        return min(PAST, max(LEAST_PAST, PAST_FRAMES / len(self.channels.spec.agents), unknown))


class _LinkError(Exception):
    def __init__(self, state: LinkState, reason: str, *, is_stranger: bool = False) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.is_stranger = is_stranger


class AgentStream:
    """Stream of one agent, over as many connections as needed."""

    def __init__(self, task: Task, streams: Streams) -> None:
        self._task = task
        self._streams = streams
        self._channels, self._patience, self._clock = streams.channels, streams.patience, streams.clock
        self._messages, self._read_timeout = streams.messages, streams.read_timeout
        self._catch_up = streams.catch_up
        self._link: tuple[LinkState, str] | None = None
        self._dialled: Address | None = None
        """Address of the agent from which the present stream comes."""
        self._limit = asyncio.timeout(None)
        self._failure: _LinkError | None = None
        """Reason why nothing more is taken from the present stream."""
        self._agent: tuple[int, float] | None = None
        self._newest = -1
        self._since: float | None = None
        """Time of the newest frame, on the clock of the agent's host; None while nothing was heard of it."""
        self._was_up = False
        self._farewell: tuple[LinkState, str] | None = None
        """State and reason of the link while its agent is gone with notice."""
        self._is_doubted = False
        """True after a message that could not be read, until one can."""

    async def run(self) -> None:
        self._set_link(LinkState.CONNECTING)
        delay = self._patience.first
        while True:
            if self._task not in self._channels.placement.seats:
                self._set_link(LinkState.VACANT, _VACANT)
                await asyncio.sleep(self._patience.longest)
                continue
            try:
                await self._follow()
            except _LinkError as error:
                # What was heard comes before the end.
                await self._messages.taken()
                error = self._failure or error
                if await self._may_find_way(error):
                    pass
                elif error.state is LinkState.DOWN and self._farewell is not None:
                    self._set_link(*self._farewell)
                else:
                    self._set_link(error.state, error.reason)
                delay = self._patience.longest if error.state is not LinkState.DOWN else delay
            if self._was_up:
                self._was_up, delay = False, self._patience.first
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, self._patience.longest)

    async def _may_find_way(self, error: _LinkError) -> bool:
        """Decide whether an agent that was never heard may be reached by another way soon: nothing is told yet."""
        if error.state is LinkState.DOWN or error.is_stranger:
            may_find = await self._channels.lost(self._task, is_stranger=error.is_stranger)
            return may_find and self._agent is None
        return False

    async def _follow(self) -> None:
        await self._channels.find_way(self._task)
        self._dialled = seat = self._channels.address(self._task)
        # Of whichever run: the agents of a cluster may be started again as another one.
        to = replace(self._channels.identity(self._task), run="")
        # An agent that does not know `past` would send ten minutes without an end by which to know them.
        since, past = (self._clock() - LEAST_PAST, self._streams.past) if self._since is None else (self._since, None)
        call = self._channels.watch(self._task, calls.watch_request(to, since, past))
        self._limit, self._failure = asyncio.timeout(None), None
        try:
            async with self._limit:
                while self._failure is None:
                    await self._catch_up.room(self._task)
                    self._read_timeout.begin(self._limit)
                    data = await call.read()
                    self._read_timeout.end(self._limit)
                    if not isinstance(data, bytes):
                        raise _LinkError(LinkState.DOWN, "the agent ended the stream")
                    if self._catch_up.is_over:
                        await self._messages.put(self._take_in_turn, data)
                    else:
                        await self._take_in_turn(data)
                raise self._failure
        except TimeoutError:
            await self._channels.forget(self._task)
            raise _LinkError(LinkState.DOWN, f"silent for {self._patience.silence:.0f} s") from None
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                # A spare sends no stream, and another task's agent none of this one; both know where it is.
                await self._channels.locate([seat])
                if self._channels.placement.seats.get(self._task) != seat:
                    return
            is_stranger = error.code() is grpc.StatusCode.NOT_FOUND
            why = await self._channels.why(self._task, error)
            raise _LinkError(_state_of(error), why, is_stranger=is_stranger) from None
        finally:
            self._read_timeout.end(self._limit)
            call.cancel()

    async def _take_in_turn(self, data: bytes) -> None:
        """Put a message into the inbox once it has room: the past of many agents is more than it holds."""
        await self._streams.inbox.room()
        if self._failure is not None:
            return
        if (seat := self._channels.placement.seats.get(self._task)) != self._dialled:
            elsewhere = _LinkError(LinkState.DOWN, "the task is placed on another host now")
            self._give_up(_LinkError(LinkState.VACANT, _VACANT) if seat is None else elsewhere)
            return
        try:
            self._take(calls.reply(data))
        except _LinkError as error:
            self._give_up(error)
        except ValueError as error:
            # The agent keeps it for minutes: asked for again, it would stand before all that comes after it.
            self._since = max(self._since or 0.0, self._clock())
            self._is_doubted = True
            self._give_up(_LinkError(LinkState.DOWN, f"sent a message that cannot be read: {error}"))

    def _give_up(self, error: _LinkError) -> None:
        self._failure = error
        self._read_timeout.cut(self._limit)

    def _take(self, reply: calls.StreamReply) -> None:
        if not OLDEST_SCHEMA <= reply.schema_version <= SCHEMA_VERSION:
            spoken = " to ".join(map(str, sorted({OLDEST_SCHEMA, SCHEMA_VERSION})))
            raise _LinkError(
                LinkState.VERSION, f"speaks schema {reply.schema_version}, this console {spoken}: update the older"
            )
        if reply.farewell is not None:
            self._note_farewell(reply.farewell)
        elif reply.description is not None:
            self._catch_up.begin_past(self._task, self._clock() - _own_time(reply, self._clock()))
            self._identify(reply.description)
            for milestone in reply.milestones if self._newest < 0 else ():
                self._catch_up.put(MilestoneTold(self._clock(), self._task, milestone))
        else:
            self._refuse_other_run()
        self._catch_up.note_clock_set(self._task, reply.clock_set)
        for data in reply.frames:
            self._put_frame(data)
        if reply.ends_past:
            self._catch_up.end_past(self._task)

    def _identify(self, description: Description) -> None:
        if description.task != str(self._task):
            raise _LinkError(
                LinkState.REFUSED, f"is the agent of {description.task}: correct [agents] in the cluster file"
            )
        self._channels.runs[self._task] = description.run
        if description.placement:
            self._channels.follow(description.placement)
        self._refuse_other_run()
        agent = (description.pid, description.started)
        if agent != self._agent:
            self._agent, self._newest = agent, -1
        if not self._is_doubted:
            self._set_up()
        self._catch_up.put(AgentDescribed(self._clock(), self._task, description))

    def _refuse_other_run(self) -> None:
        """Raise _LinkError if the agent belongs to another run than the lead's."""
        spec = self._channels.spec
        own, lead = (self._channels.runs.get(task) for task in (self._task, spec.lead))
        if own is not None and lead is not None and own != lead:
            why = f"is an agent of run {own}, and that of {spec.lead} of run {lead}: give both the same --run"
            raise _LinkError(LinkState.REFUSED, why)

    def _note_farewell(self, farewell: Farewell) -> None:
        at = clock(self._clock())
        if farewell.moves:
            self._farewell = LinkState.MOVED, f"tasks are placed anew since {at}"
        elif farewell.task_goes_on:
            self._farewell = LinkState.LEFT, f"the agent left at {at} as it was asked to, and the task went on"
        else:
            self._farewell = LinkState.DOWN, f"the agent ended at {at}"

    def _set_up(self) -> None:
        self._was_up, self._is_doubted, self._farewell = True, False, None
        self._set_link(LinkState.UP, self._channels.heard(self._task))

    def _put_frame(self, data: bytes) -> None:
        frame = frames.frame(data)
        if self._is_doubted:
            self._set_up()
        # A snapshot after a reconnect begins with frames that came before it was cut.
        if frame.sequence > self._newest:
            self._newest, self._since = frame.sequence, frame.at
            self._catch_up.put(FrameArrived(self._clock(), self._task, frame, data))

    def _set_link(self, state: LinkState, reason: str = "") -> None:
        if (state, reason) != self._link:
            self._log(state, reason)
            self._link = (state, reason)
            self._catch_up.put(LinkChanged(self._clock(), self._task, state, reason))

    def _log(self, state: LinkState, reason: str) -> None:
        was_lost = self._link is not None and self._link[0] not in (LinkState.CONNECTING, LinkState.UP)
        level = logging.INFO if was_lost else logging.DEBUG
        if state not in (LinkState.CONNECTING, LinkState.UP):
            level = logging.WARNING
        text = "the link to its agent is %s%s"
        _logger.log(level, text, state, f": {reason}" if reason else "", extra={"task": str(self._task)})


def _own_time(reply: calls.StreamReply, otherwise: float) -> float:
    """Return the time of a description on the clock of the agent's host, where known."""
    if reply.at is not None:
        return reply.at
    try:
        return frames.frame(reply.frames[-1]).at if reply.frames else otherwise
    except ValueError:  # told when it is taken
        return otherwise


def _state_of(error: grpc.aio.AioRpcError) -> LinkState:
    match error.code():
        case grpc.StatusCode.FAILED_PRECONDITION | grpc.StatusCode.UNIMPLEMENTED:
            return LinkState.VERSION
        # It is not the agent that was meant.
        case grpc.StatusCode.NOT_FOUND | grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNAUTHENTICATED:
            return LinkState.REFUSED
        case _:
            return LinkState.DOWN
