"""A training that is slower than it was within the last minute, for any reason."""

from __future__ import annotations

import statistics
from collections import deque
from typing import NamedTuple

LEAST = 1.25
"""Factor by which the slowest rate of an earlier stretch exceeds the fastest of now, from which on a training is no
longer called healthy. Comparing these two keeps overlapping noise out; with 1.5, steps of 283 ms after steps of 200
ms were called healthy."""
_MEMORY = 75.0
"""Seconds for which rates are remembered: older changes are no news."""
_BEFORE, _NOW = 5, 20
"""Rates in a row, one a second, of the stretch before and of now: each rate is over 5 s. With 10 for now, noise of
20 % took the word from 8 equal workers 16 times in half an hour, with 20 not once in a quarter of an hour; with more
the drop would be told later."""


class Drop(NamedTuple):
    """The fastest stretch of the last minute beside the pace of now."""

    times: float
    """Factor by which the training was faster before."""
    until: float
    """Its end, Unix seconds."""


class PaceDrop:
    """Memory of the rates of the last minute, by the second."""

    def __init__(self) -> None:
        self._rates: deque[tuple[float, float]] = deque()

    def remember(self, now: float, rate: float | None) -> None:
        """Remember the rate at `now`, Unix seconds; None or 0 while no steps are made."""
        if not rate:
            return
        self._rates.append((now, rate))
        while now - self._rates[0][0] > _MEMORY:
            self._rates.popleft()

    def newest(self) -> Drop | None:
        """Return the factor by which training was faster within the last minute; None where that is no news."""
        rates = [known for _, known in self._rates]
        if len(rates) < _BEFORE + _NOW:
            return None
        starts = range(len(rates) - _BEFORE - _NOW + 1)
        fastest = max(starts, key=lambda start: (min(rates[start : start + _BEFORE]), start))
        before, newest = rates[fastest : fastest + _BEFORE], rates[-_NOW:]
        if min(before) < LEAST * max(newest):
            return None
        return Drop(statistics.median(before) / statistics.median(newest), self._rates[fastest + _BEFORE - 1][0])
