"""Pace of the own task's steps, as far as one agent knows it: for the words to the service manager."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_WINDOW = 60.0
"""Seconds of steps over which the rate is taken; always at least the newest two reports with steps."""
_STANDSTILL, _LEAST_STANDSTILL = 10.0, 30.0
"""Number of usual steps, and least seconds, without a step, after which the time of the last one is told."""


class StepPace:
    """Times of the newest reports with steps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reports: deque[tuple[float, int]] = deque()

    def look(self, steps: int) -> None:
        """Take in how many steps the attempt has made so far; call it each second."""
        newest = self._reports[-1][1] if self._reports else 0
        if steps < newest:
            self._reports.clear()
        if steps and steps != newest:
            self._reports.append((self._clock(), steps))
        while len(self._reports) > 2 and self._reports[-1][0] - self._reports[1][0] > _WINDOW:
            self._reports.popleft()

    @property
    def rate(self) -> float | None:
        """Steps a second of late; None while none is known, and while no steps come."""
        usual = self._usual
        return None if usual is None or self.silent is not None else usual

    @property
    def silent(self) -> float | None:
        """Seconds since the last step was reported, where that is unusually long; None where it is not."""
        if not self._reports:
            return None
        seconds = self._clock() - self._reports[-1][0]
        return seconds if seconds > max(_LEAST_STANDSTILL, _STANDSTILL / (self._usual or 1.0)) else None

    @property
    def _usual(self) -> float | None:
        if len(self._reports) < 2:
            return None
        (begin, first), (end, last) = self._reports[0], self._reports[-1]
        return (last - first) / (end - begin)
