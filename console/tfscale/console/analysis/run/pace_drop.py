"""A training that is much slower than it was a minute ago, whatever the reason."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

DROP = 1.5
"""Times as fast as now, from which on a training is no longer called healthy (reasoned, not tuned on runs): below, the
drift of a busy host would take the word from runs that are well; above, a link that halves the rate would keep it."""
_MINUTE = (50.0, 75.0)
"""Ages of the rates to compare with, seconds."""
_NOW = 10.0
"""Seconds of the newest rates, whose median a checkpoint of 5 s does not move."""
_LEAST = 5
"""Rates on each side, at least; fewer are the begin of a run, or of an attempt."""


class PaceDrop:
    """Memory of the rates of the last minute, by the second."""

    def __init__(self) -> None:
        self._rates: deque[tuple[float, float]] = deque()

    def since_a_minute(self, now: float, rate: float | None) -> float | None:
        """Remember the rate of now, and return how many times as fast it was a minute ago; None below `DROP`."""
        if rate:
            self._rates.append((now, rate))
        while self._rates and now - self._rates[0][0] > _MINUTE[1]:
            self._rates.popleft()
        before = [known for at, known in self._rates if now - at >= _MINUTE[0]]
        newest = [known for at, known in self._rates if now - at < _NOW]
        if not rate or min(len(before), len(newest)) < _LEAST:
            return None
        return drop if (drop := _median_ratio(before, newest)) > DROP else None


def _median_ratio(before: Sequence[float], newest: Sequence[float]) -> float:
    return statistics.median(before) / statistics.median(newest)
