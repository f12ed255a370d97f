"""Frames from the one agent to its many watchers.

A watcher that is too slow loses its oldest frames, and gets their number; the agent never waits for a watcher.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from tfscale.agent.telemetry.kept_frames import KeptFrames
from tfscale.agent.wire import EncodedFrame
from tfscale.core.records.frame import Farewell
from tfscale.core.records.milestone import Milestone

RECENT = 60
"""Most frames in the snapshot of a new watcher, and in a watcher's queue: a minute."""
MILESTONES = 1000
"""Most milestones that are remembered (0.3 MB): a task that is restarted each minute is remembered for five hours."""
PIECE = 32 << 10
"""Bytes of a piece of the past: some ten frames, so that a console reads few messages, and the waiting pieces of a
thousand agents take 32 MB."""
CLOCK_SET = 0.5
"""Seconds between the movements of the host's clock and of a clock that nobody sets, from which on the host's clock
was set. NTP moves a clock by half a millisecond a second at most; a smaller set puts no frame into another second."""


class Watcher:
    """Bounded queue of one subscriber. Iterating gives frames until the feed is closed."""

    def __init__(self, past: Sequence[EncodedFrame], limit: int, recent: int = RECENT) -> None:
        self.recent = tuple(past[:recent])
        """Frames before the first that iterating gives, oldest first."""
        self.begin = past[0].at if past else math.inf
        """Time of the first frame that it gets, Unix seconds."""
        self._past = deque(past[recent:])
        self._queue: deque[EncodedFrame] = deque()
        self._limit = limit
        self._dropped = 0
        self._closed = False
        self._ready = asyncio.Event()

    def offer(self, frame: EncodedFrame) -> None:
        if len(self._queue) >= self._limit:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(frame)
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    def pieces(self) -> Iterator[list[EncodedFrame]]:
        """Yield the kept frames as pieces of about `PIECE` bytes; iterating the watcher yields later frames.

        The host's clock was set between no two frames of a piece.
        """
        while self._past:
            piece = [self._past.popleft()]
            size = len(piece[0].message)
            while self._past and size + len(self._past[0].message) <= PIECE and _follows(piece[-1], self._past[0]):
                piece.append(self._past.popleft())
                size += len(piece[-1].message)
            yield piece

    async def __aiter__(self) -> AsyncIterator[EncodedFrame]:
        while self._past:
            yield self._past.popleft()
        while True:
            await self._ready.wait()
            while self._queue:
                dropped, self._dropped = self._dropped, 0
                frame = self._queue.popleft()
                yield frame.after(dropped) if dropped else frame
            if self._closed:
                return
            self._ready.clear()


class Feed:
    """Distribution of each frame to every watcher."""

    def __init__(self, minutes: int, limit: int = RECENT) -> None:
        """Keep frames for watchers that come late or come back: `minutes` of frames with steps, and of the newest."""
        self._limit = limit
        self._kept = KeptFrames(60 * minutes)
        self._milestones: deque[Milestone] = deque(maxlen=MILESTONES)
        self._watchers: set[Watcher] = set()
        self.farewell = Farewell()
        """Last words to each watcher, once the feed is closed."""

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def publish(self, frame: EncodedFrame, state: Milestone | None = None) -> None:
        """Give a frame to every watcher, and keep it; a new `state` of the task is remembered for longer."""
        if state is not None and state.is_change(self._milestones[-1] if self._milestones else None):
            self._milestones.append(state)
        self._kept.append(frame)
        for watcher in self._watchers:
            watcher.offer(frame)

    def newest(self) -> EncodedFrame | None:
        """Return the newest frame, None before the first."""
        return next(iter(self._kept.newest(1)), None)

    @contextmanager
    def watch(self, since: float | None = None, *, pieces_since: float | None = None) -> Iterator[Watcher]:
        """Register a watcher for as long as the context lasts.

        It first gets the kept frames newer than `since` (Unix seconds), or the newest frame if none is newer; with
        None, those of the last minute. Then it gets every new frame. With `pieces_since`, on `steady_time`, it first
        gets the frames made after that moment instead: no kept frame is `recent`, and those around the last steps come
        first, however old they are.
        """
        in_pieces = pieces_since is not None
        past = self._past(since) if pieces_since is None else self._kept.with_steps(pieces_since)
        watcher = Watcher(past or self._kept.newest(1), self._limit, 0 if in_pieces else RECENT)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def _past(self, since: float | None) -> list[EncodedFrame]:
        return self._kept.newest(RECENT) if since is None else self._kept.since(since)

    def milestones(self, until: float) -> list[Milestone]:
        """Return the milestones before `until`, Unix seconds, oldest first."""
        return [milestone for milestone in self._milestones if milestone.at < until]

    def close(self, farewell: Farewell | None = None) -> None:
        """Let every watcher end after its queued frames."""
        self.farewell = farewell or Farewell()
        for watcher in self._watchers:
            watcher.close()

    def forget(self) -> None:
        """Drop the kept frames: no watcher comes any more."""
        self._kept = KeptFrames(0)


def _follows(before: EncodedFrame, frame: EncodedFrame) -> bool:
    """Decide whether the host's clock was not set between two frames."""
    return abs((frame.at - before.at) - (frame.steady - before.steady)) < CLOCK_SET
