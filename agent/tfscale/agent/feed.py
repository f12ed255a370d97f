"""Frames from the one agent to its many watchers: a watcher that is too slow loses its oldest frames, and hears how
many; nobody ever waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tfscale.core.records import Frame

RECENT = 60
"""Frames kept for the snapshot of a new watcher, and at most queued for one: a minute."""


class Watcher:
    """One subscriber's bounded queue. Iterating gives frames until the feed is closed."""

    def __init__(self, recent: tuple[Frame, ...], limit: int) -> None:
        self.recent = recent
        """The frames before the first that iterating gives, oldest first."""
        self._queue: deque[Frame] = deque()
        self._limit = limit
        self._dropped = 0
        self._closed = False
        self._ready = asyncio.Event()

    def offer(self, frame: Frame) -> None:
        if len(self._queue) >= self._limit:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(frame)
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Frame]:
        while True:
            await self._ready.wait()
            while self._queue:
                dropped, self._dropped = self._dropped, 0
                yield replace(self._queue.popleft(), dropped=dropped)
            if self._closed:
                return
            self._ready.clear()


class Feed:
    """Hands each frame to every watcher."""

    def __init__(self, limit: int = RECENT) -> None:
        self._limit = limit
        self._recent: deque[Frame] = deque(maxlen=RECENT)
        self._watchers: set[Watcher] = set()

    def publish(self, frame: Frame) -> None:
        self._recent.append(frame)
        for watcher in self._watchers:
            watcher.offer(frame)

    @contextmanager
    def watch(self) -> Iterator[Watcher]:
        """A watcher for as long as the context lasts."""
        watcher = Watcher(tuple(self._recent), self._limit)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def close(self) -> None:
        """Let every watcher end after what is queued for it."""
        for watcher in self._watchers:
            watcher.close()
