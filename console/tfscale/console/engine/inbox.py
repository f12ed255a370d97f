"""Queue between a source of events and the engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tfscale.console.engine.events import Event, FrameArrived

INBOX_LIMIT = 8192
"""Events: eight seconds of a console that is held up, at 1,000 tasks and a frame a second."""


class Inbox:
    """Bounded queue of events. Beyond `limit` it drops the oldest frame and counts it, never another event.

    `tap` is called with every event on arrival, also with one that is dropped later.
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
        """Return when an event waits, or the inbox is closed. The events taken before count as done."""
        self._in_hand = 0
        self._taken.set()
        await self._filled.wait()

    def take(self, limit: int) -> list[Event]:
        """Return up to `limit` events, oldest first; none when the inbox is empty."""
        events = [self._events.popleft() for _ in range(min(limit, len(self._events)))]
        if not self._events and not self.is_closed:
            self._filled.clear()
        self._in_hand = len(events)
        self._taken.set()
        return events

    def close(self) -> None:
        """Let readers know that no event will follow."""
        self.is_closed = True
        self._filled.set()

    async def room(self, left: int = INBOX_LIMIT // 2) -> None:
        """Return when at most `left` events wait or are in work: for a source that can hold back its events."""
        while len(self._events) + self._in_hand > left:
            self._taken.clear()
            await self._taken.wait()

    def _drop_oldest_frame(self) -> None:
        for position, event in enumerate(self._events):
            if isinstance(event, FrameArrived):
                del self._events[position]
                self.dropped += 1
                return
