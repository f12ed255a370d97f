"""Where events come from. A source fills an `Inbox` until it is cancelled; who empties it cannot tell them apart."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tfscale.console.events import Event, FrameArrived
from tfscale.core.cluster import ClusterSpec

INBOX_LIMIT = 8192
"""Events. At 1,000 tasks and a frame a second, eight seconds of a console that does not come to read."""


class Inbox:
    """A bounded queue of events; beyond `limit` it drops the oldest frame and counts it, never anything else.

    `tap` sees every event at the moment when it comes, also one that is dropped later.
    """

    def __init__(self, limit: int = INBOX_LIMIT, tap: Callable[[Event], None] | None = None) -> None:
        self.dropped = 0
        self._limit = limit
        self._tap = tap
        self._events: deque[Event] = deque()
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()
        self._in_hand = 0
        self.is_closed = False

    def put(self, event: Event) -> None:
        if self._tap is not None:
            self._tap(event)
        self._events.append(event)
        if len(self._events) > self._limit:
            self._drop_oldest_frame()
        self._filled.set()

    async def wait(self) -> None:
        """Return when there is something to take, or nothing more to come. What was taken before is done with."""
        self._in_hand = 0
        self._taken.set()
        await self._filled.wait()

    def take(self, most: int) -> list[Event]:
        """Up to `most` events, oldest first; none when it is empty."""
        taken = [self._events.popleft() for _ in range(min(most, len(self._events)))]
        if not self._events and not self.is_closed:
            self._filled.clear()
        self._in_hand = len(taken)
        self._taken.set()
        return taken

    def close(self) -> None:
        """Nothing more will come."""
        self.is_closed = True
        self._filled.set()

    async def room(self, left: int = INBOX_LIMIT // 2) -> None:
        """Return when at most `left` events wait or are in hand: for who has many at once, and can wait with them."""
        while len(self._events) + self._in_hand > left:
            self._taken.clear()
            await self._taken.wait()

    def _drop_oldest_frame(self) -> None:
        for position, event in enumerate(self._events):
            if isinstance(event, FrameArrived):
                del self._events[position]
                self.dropped += 1
                return


class Source(Protocol):
    """Gives the events of a cluster."""

    @property
    def spec(self) -> ClusterSpec:
        """The cluster that the events are of."""

    def now(self) -> float:
        """The source's present: the clock of this host, or the moment that a replay has come to."""

    async def run(self, inbox: Inbox) -> None:
        """Fill the inbox until cancelled, or until there is nothing more to come."""


class Clock:
    """Unix seconds of this host that never go back: events are in the order of their times.

    Where the host's clock is set back, this one goes on at the pace of the monotonic clock until it is caught up with.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._last, self._at = wall(), steady()

    def __call__(self) -> float:
        at = self._steady()
        self._last, self._at = max(self._wall(), self._last + at - self._at), at
        return self._last
