"""Watchdog over the steps of the own task: the time without a step, once longer than any normal pause."""

from __future__ import annotations

from collections.abc import Iterable

from tfscale.core.failure.hang_limits import BUSY, hang_limit
from tfscale.core.records.probe_status import ActivityKind

_WARM_UP = 5
"""First steps of an attempt whose pauses do not count: graphs are compiled in them."""


class Watchdog:
    """Watch over one task by its probe's reports. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._attempt = (0, 0)
        self._steps = 0
        self._stepped: float | None = None
        self._longest = 0.0
        """Longest pause after which it went on, since its first steps."""

    def look(
        self, attempt: tuple[int, int], steps: int, activities: Iterable[ActivityKind], now: float
    ) -> float | None:
        """Return the seconds without a step where they exceed any normal pause, else None; call it each second.

        `steps` and `activities` are those of the attempt (generation, attempt) so far.
        """
        if attempt != self._attempt or steps < self._steps:
            self._attempt, self._steps, self._stepped, self._longest = attempt, 0, None, 0.0
        if steps > self._steps:
            if self._stepped is not None and self._steps >= _WARM_UP:
                self._longest = max(self._longest, now - self._stepped)
            self._steps, self._stepped = steps, now
        if self._stepped is None or (quiet := now - self._stepped) <= self._limit(activities):
            return None
        return quiet

    def _limit(self, activities: Iterable[ActivityKind]) -> float:
        limit = hang_limit(self._longest)
        return max(limit, BUSY) if any(kind is not ActivityKind.IDLE for kind in activities) else limit
