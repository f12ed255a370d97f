"""Where events come from. A source fills an `Inbox` until it is cancelled; who empties it cannot tell them apart."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from tfscale.console.events import Event, FrameArrived

INBOX_LIMIT = 8192
"""Events. At 1,000 tasks and a frame a second, eight seconds of a console that does not come to read."""


class Inbox:
    """A bounded queue of events; beyond `limit` it drops the oldest frame and counts it, never anything else."""

    def __init__(self, limit: int = INBOX_LIMIT) -> None:
        self.dropped = 0
        self._limit = limit
        self._events: deque[Event] = deque()
        self._filled = asyncio.Event()

    def put(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) > self._limit:
            self._drop_oldest_frame()
        self._filled.set()

    async def wait(self) -> None:
        """Return when there is something to take."""
        await self._filled.wait()

    def take(self, most: int) -> list[Event]:
        """Up to `most` events, oldest first; none when it is empty."""
        taken = [self._events.popleft() for _ in range(min(most, len(self._events)))]
        if not self._events:
            self._filled.clear()
        return taken

    def _drop_oldest_frame(self) -> None:
        for position, event in enumerate(self._events):
            if isinstance(event, FrameArrived):
                del self._events[position]
                self.dropped += 1
                return


class Source(Protocol):
    """Gives the events of a cluster."""

    async def run(self, inbox: Inbox) -> None:
        """Fill the inbox until cancelled, or until there is nothing more to come."""
