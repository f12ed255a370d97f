"""Whether the wall clock, which TensorFlow's stamps read, was set while steps were measured."""

from __future__ import annotations

import time
from collections.abc import Callable

TOLERANCE = 0.0005
"""Seconds that the offset between wall and monotonic clock may move between two reads; slewing stays below it."""


class ClockWatch:
    """Samples the offset of CLOCK_REALTIME to CLOCK_MONOTONIC."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._offset = self._sample()

    def jumped(self) -> bool:
        """Whether the wall clock was set since the last call."""
        offset = self._sample()
        moved = abs(offset - self._offset) > TOLERANCE
        self._offset = offset
        return moved

    def _sample(self) -> float:
        # The narrowest of three brackets: a pause of this thread between the two reads is no jump.
        samples = []
        for _ in range(3):
            before = self._steady()
            wall = self._wall()
            after = self._steady()
            samples.append((after - before, wall - (before + after) / 2))
        return min(samples)[1]
