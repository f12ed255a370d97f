"""Detector of a wall clock that was set while steps were measured: TensorFlow's stamps read the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

_TOLERANCE = 0.0005
"""Seconds that the offset between wall and monotonic clock may move between two reads; slewing stays below it."""
_NARROW = _TOLERANCE / 5
"""Seconds that a sample may take without being repeated."""


def on_new_clock(times: np.ndarray, by: float, now: float) -> np.ndarray:
    """Return times near `now` by the new clock: old times are moved by `by`, the seconds by which it was set."""
    return np.where(np.abs(times + by - now) < np.abs(times - now), times + by, times)


class ClockWatch:
    """Sampler of the offset of CLOCK_REALTIME to CLOCK_MONOTONIC."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self.offset = self._sample()
        """Newest sample, seconds."""

    def moved(self) -> float:
        """Return the seconds by which the wall clock was set since the last call, else 0."""
        before, self.offset = self.offset, self._sample()
        return self.offset - before if abs(self.offset - before) > _TOLERANCE else 0.0

    def _sample(self) -> float:
        brackets = [self._bracket()]
        # The narrowest of four: a pause of this thread between two readings is no jump.
        while brackets[0][0] > _NARROW and len(brackets) < 4:
            brackets.append(self._bracket())
        return min(brackets)[1]

    def _bracket(self) -> tuple[float, float]:
        """Return the seconds that one sample took, and the offset."""
        before = self._steady()
        wall = self._wall()
        after = self._steady()
        return after - before, wall - (before + after) / 2
