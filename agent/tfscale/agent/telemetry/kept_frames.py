"""Frames that an agent keeps for consoles that come late: the newest, and those around the last steps.

However long a task hangs, the frames from before show who was slow, and that steps were made at all.
"""

from __future__ import annotations

from collections import deque
from heapq import merge
from itertools import count
from operator import itemgetter

from tfscale.agent.wire import EncodedFrame

LEAST = 60
"""Frames that are kept even where they hold no steps: a minute."""
KEPT_STEPS = 200_000
"""Most steps in the kept frames (7 MB): a fast program keeps less time, not more memory."""
AFTER_STEPS = 15
"""Frames after the newest step that are kept with the steps. They show how the stillness began; with 60 the shortest
history would hold no step, with 2 no process that is stopped a moment later."""


class KeptFrames:
    """Newest `most` frames, and newest `most` frames with steps or soon after steps; never over twice `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers = count()
        self._busy: deque[tuple[int, EncodedFrame]] = deque()
        """Frames with steps, and up to `AFTER_STEPS` after each; numbered over all frames."""
        self._still: deque[tuple[int, EncodedFrame]] = deque()
        self._rows = 0
        self._since_steps = AFTER_STEPS

    def __len__(self) -> int:
        return len(self._busy) + len(self._still)

    def append(self, frame: EncodedFrame) -> None:
        """Keep a frame, and drop frames beyond the limits."""
        self._since_steps = 0 if frame.rows else self._since_steps + 1
        frames = self._busy if self._since_steps <= AFTER_STEPS else self._still
        frames.append((next(self._numbers), frame))
        self._rows += frame.rows
        while len(self._busy) > self._most or (self._rows > KEPT_STEPS and len(self) > LEAST):
            self._rows -= self._busy.popleft()[1].rows
        while len(self._still) > self._most or (len(self) > self._most and self._begins_still()):
            self._still.popleft()

    def newest(self, number: int) -> list[EncodedFrame]:
        """Return the newest frames, at most `number`, oldest first."""
        return self._ordered()[-number:]

    def since(self, since: float) -> list[EncodedFrame]:
        """Return the frames newer than `since` (Unix seconds), oldest first."""
        return [frame for frame in self._ordered() if frame.at > since]

    def with_steps(self, since: float) -> list[EncodedFrame]:
        """Return the frames made after `since` (`steady_time`), and before them as many with steps as without."""
        newer = [frame for _, frame in self._still if frame.steady > since]
        older = [frame for _, frame in self._busy if frame.steady <= since]
        return older[max(0, len(older) - len(newer)) :] + [each for each in self._ordered() if each.steady > since]

    def _begins_still(self) -> bool:
        return bool(self._still) and (not self._busy or self._still[0][0] < self._busy[0][0])

    def _ordered(self) -> list[EncodedFrame]:
        return [frame for _, frame in merge(self._busy, self._still, key=itemgetter(0))]
