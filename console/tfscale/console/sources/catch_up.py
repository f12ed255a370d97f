"""Past of a live cluster: the frames that agents kept, second by second, in the time of the frames.

A console that comes late judges them as an earlier console did, and then goes on live, without a gap or a double.
"""

from __future__ import annotations

import asyncio
import logging
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tfscale.console.engine.events import (
    AgentDescribed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    MilestoneTold,
    SecondPassed,
)
from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.clock_seconds import put_seconds
from tfscale.core.cluster.task import Task

_logger = logging.getLogger(__name__)

ANSWER = 2.0
"""Seconds without any agent's next part of the past, after which the missing agents are not waited for.

A shorter wait would leave out the past of a busy agent; a longer one would delay the headline for a dead agent.
"""
SILENCE = 3.0
"""Seconds between two frames from which on an agent counts as unheard: it sends one a second, and a busy host is
late by one.
"""
_WAITING = 2048
"""Waiting frames of the past, of all agents together: with the pieces that are read beyond, some 60 MB at 1,000
tasks of 100 steps a second (reckoned). Fewer would not hold the pieces of two seconds."""
_QUIET = 1.0
"""Seconds of catching up before the first message about it, and between two messages."""


@dataclass(slots=True)
class _Share:
    """Waiting events of one agent."""

    task: Task
    events: deque[Event] = field(default_factory=deque)
    untimed: list[Event] = field(default_factory=list)
    """Events of the connection, which get the time of the next frame of the past."""
    offset: float = 0.0
    """Seconds by which the console's clock is ahead of the agent's."""
    clock_set: float = 0.0
    """Seconds by which the agent's clock was set forward after the frames that come now."""
    has_frames: bool = False
    is_whole: bool = False
    """True once all of its past has come, or is no longer waited for."""
    newest: float = -math.inf
    """Time of the agent's newest event, on the console's clock."""
    heard: float | None = None
    """Time of the last frame that was handed on."""
    sequence: int = -1
    """Sequence of that frame."""
    is_silent: bool = False
    way: str = ""
    """Way to the agent in words, of the newest link that is up."""

    def put(self, event: Event) -> None:
        if isinstance(event, LinkChanged) and event.state is LinkState.UP:
            self.way = event.reason
        if self.is_whole:
            self._append(event)
        elif isinstance(event, FrameArrived):
            # Nothing that an agent says of its clock brings a frame before the one that it followed.
            at = min(max(event.frame.at + self.clock_set + self.offset, self.newest), event.at)
            self._append(*[replace(each, at=at) for each in self.untimed], replace(event, at=at))
            self.untimed, self.has_frames = [], True
        else:
            self.untimed.append(event)

    def end(self) -> None:
        """Wait for no more of the past."""
        self.is_whole = True
        self._append(*self.untimed)
        self.untimed = []

    def until(self, second: float) -> Iterable[Event]:
        """Hand on the events up to a second, with the silence before and between them."""
        while self.events and self.events[0].at <= second:
            event = self.events.popleft()
            if isinstance(event, FrameArrived):
                if self.is_silent:
                    yield LinkChanged(event.at, self.task, LinkState.UP, self.way)
                self.heard, self.sequence, self.is_silent = event.at, event.frame.sequence, False
            yield event
        is_missed = self.heard is not None and second - self.heard > SILENCE and not self.is_gap
        if is_missed and not self.is_silent and (self.events or not self.is_whole):
            self.is_silent = True
            yield LinkChanged(second, self.task, LinkState.DOWN, f"silent for {SILENCE:.0f} s")

    @property
    def is_gap(self) -> bool:
        """True at a frame after frames that the agent sent but did not keep: it was not silent."""
        coming = next((event.frame for event in self.events if isinstance(event, FrameArrived)), None)
        return coming is not None and coming.sequence > self.sequence + 1

    def _append(self, *events: Event) -> None:
        self.events += events
        self.newest = max([self.newest, *(event.at for event in events)])


class CatchUp:
    """Stage between the streams of all agents and the inbox. Once caught up, events pass at once."""

    def __init__(self, inbox: Inbox, clock: Callable[[], float], tasks: Iterable[Task]) -> None:
        self.is_over = False
        self._inbox = inbox
        self._clock = clock
        self._shares = {task: _Share(task) for task in tasks}
        self._room = max(1, _WAITING // max(1, len(self._shares)))
        self._needed = -math.inf
        """Time up to which the past of all agents is needed next; anything at all at first."""
        self._behind = set(self._shares)
        """Tasks whose past has not come yet."""
        self._came = asyncio.Event()
        self._went = asyncio.Event()

    def put(self, event: FrameArrived | AgentDescribed | LinkChanged | MilestoneTold) -> None:
        """Take an event of a task's stream, with its time of arrival."""
        if self.is_over:
            self._inbox.put(event)
            return
        share = self._shares[event.task]
        is_lost = isinstance(event, LinkChanged) and event.state not in (LinkState.CONNECTING, LinkState.UP)
        if is_lost:
            share.end()
        share.put(event)
        self._note_came(share)

    def begin_past(self, task: Task, offset: float) -> None:
        """Take in that frames of the past follow, and that the console's clock is `offset` seconds ahead of theirs."""
        self._shares[task].offset = offset

    def note_clock_set(self, task: Task, seconds: float) -> None:
        """Take in by how much the clock of the agent's host was set forward after the frames that come now."""
        self._shares[task].clock_set = seconds

    def end_past(self, task: Task) -> None:
        """Take in that all frames of the past have come."""
        if not self.is_over:
            self._shares[task].end()
            self._note_came(self._shares[task])

    async def room(self, task: Task) -> None:
        """Return when more of a task's past may be read."""
        while not self.is_over and len(self._shares[task].events) > self._room and task not in self._behind:
            await self._went.wait()

    async def run(self) -> None:
        """Go through the past, then put a `SecondPassed` in the inbox at every whole second, until cancelled."""
        await self._wait()
        begins = [share.events[0].at for share in self._shares.values() if share.has_frames]
        first = second = math.floor(min([*begins, self._clock()])) + 1.0
        logged_at = self._clock()
        while second <= self._clock():
            self._need(second)
            await self._wait()
            second = self._after_gap(second)
            self._hand_on(second)
            self._inbox.put(SecondPassed(second))
            await self._inbox.room(0)
            if self._clock() - logged_at > _QUIET:
                logged_at = self._clock()
                _logger.info("going through the past: %.0f of %.0f s", second - first, logged_at - first)
            second += 1.0
        self.is_over = True
        self._hand_on(now := self._clock())
        for task in [task for task, share in self._shares.items() if share.is_silent]:
            self._inbox.put(LinkChanged(now, task, LinkState.UP, self._shares[task].way))
        await put_seconds(self._inbox, self._clock)

    def _after_gap(self, second: float) -> float:
        """Return the second from which on frames were kept again, if this second has none.

        Of a long hang agents keep the begin and the end. The time between is unknown, and not judged.
        """
        coming = [share for share in self._shares.values() if share.events]
        begin = min((share.events[0].at for share in coming), default=second)
        if begin <= second + SILENCE or not all(share.is_gap for share in coming):
            return second
        # In the second after the first one's frame the others' may be on their way.
        return math.floor(max(at for share in coming if (at := share.events[0].at) <= begin + SILENCE)) + 1.0

    def _need(self, second: float) -> None:
        """Ask for the past of all agents up to a second."""
        self._needed = second
        self._behind = {task for task, share in self._shares.items() if not (share.is_whole or share.newest > second)}
        self._wake_readers()

    def _note_came(self, share: _Share) -> None:
        if share.task in self._behind and (share.is_whole or share.newest > self._needed):
            self._behind.discard(share.task)
            self._came.set()

    async def _wait(self) -> None:
        """Return once all agents have sent the needed part, or the missing ones were waited for long enough.

        While some agents send, this console may be the slow one.
        """
        while self._behind:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), ANSWER)
            except TimeoutError:
                for task in self._behind:
                    self._shares[task].end()
                self._behind = set()

    def _hand_on(self, second: float) -> None:
        due = [event for share in self._shares.values() for event in share.until(second)]
        for event in sorted(due, key=operator.attrgetter("at")):
            self._inbox.put(event)
        self._wake_readers()

    def _wake_readers(self) -> None:
        self._went.set()
        self._went = asyncio.Event()
