"""Frames from the one agent to its many watchers: a watcher that is too slow loses its oldest frames, and hears how
many; nobody ever waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tfscale.core.records import Frame

RECENT = 60
"""Frames at most in the snapshot of a new watcher, and at most queued for one: a minute."""
KEPT = 600
"""Frames kept for those who come late or come back: ten minutes..."""
KEPT_STEPS = 200_000
"""... but no more steps than this (9 MB), so that a fast program keeps less time instead of more memory."""


class Watcher:
    """One subscriber's bounded queue. Iterating gives frames until the feed is closed."""

    def __init__(self, past: Sequence[Frame], limit: int) -> None:
        self.recent = tuple(past[:RECENT])
        """The frames before the first that iterating gives, oldest first."""
        self._past = deque(past[RECENT:])
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
        while self._past:
            yield self._past.popleft()
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
        self._kept: deque[Frame] = deque()
        self._steps = 0
        self._watchers: set[Watcher] = set()

    def publish(self, frame: Frame) -> None:
        self._kept.append(frame)
        self._steps += _steps(frame)
        while len(self._kept) > KEPT or (self._steps > KEPT_STEPS and len(self._kept) > RECENT):
            self._steps -= _steps(self._kept.popleft())
        for watcher in self._watchers:
            watcher.offer(frame)

    @contextmanager
    def watch(self, since: float | None = None) -> Iterator[Watcher]:
        """A watcher for as long as the context lasts, which begins with the frames after `since` that are kept, and at
        least the newest; None: with the last minute."""
        watcher = Watcher(self._past(since), self._limit)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def _past(self, since: float | None) -> list[Frame]:
        kept = list(self._kept)
        return kept[-RECENT:] if since is None else [frame for frame in kept if frame.at > since] or kept[-1:]

    def close(self) -> None:
        """Let every watcher end after what is queued for it."""
        for watcher in self._watchers:
            watcher.close()


def _steps(frame: Frame) -> int:
    return sum(len(batch.sequence) for batch in frame.steps)
