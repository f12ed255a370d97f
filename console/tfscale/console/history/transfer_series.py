"""Time that the network needs for a step's all-reduce, second by second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_COLLECTIVES = 16_384
"""Collectives within which a late step still counts in its second's mean."""


class TransferSeries:
    """Mean of the steps' transfer for each second. A step's transfer is the shortest time of a task in its collective.

    Tasks may report a step minutes apart, as at the beginning, when agents send their kept frames.
    """

    def __init__(self) -> None:
        self._shortest = np.full(_COLLECTIVES, np.nan, np.float32)
        self._end = np.full(_COLLECTIVES, np.nan)
        self._newest = -1
        self._means: dict[int, float] = {}

    def add(self, sequence: NDArray[np.int64], end: NDArray[np.float64], reduce: NDArray[np.float32]) -> None:
        """Take in k steps, at least one: (k,) collectives, ends in Unix seconds, and seconds in the collective."""
        self._make_room(int(sequence.min()), int(sequence.max()))
        is_kept = (sequence > self._newest - _COLLECTIVES) & np.isfinite(end)
        if not is_kept.all():
            sequence, end, reduce = sequence[is_kept], end[is_kept], reduce[is_kept]
        place = sequence % _COLLECTIVES
        np.fmin.at(self._shortest, place, reduce)
        self._end[place] = end
        if len(end):
            self._average(int(end.min()))

    def clear(self) -> None:
        """Forget the collectives, whose numbers begin anew; the means stay."""
        self._newest = -1
        self._shortest[:], self._end[:] = np.nan, np.nan

    def series(self, last: int, span: int) -> NDArray[np.float32]:
        """Return (span,) seconds a step in the seconds before `last`, Unix seconds; NaN unknown."""
        return np.array([self._means.get(second, np.nan) for second in range(last - span, last)], np.float32)

    def forget(self, before: int) -> None:
        """Drop the means of the seconds before `before`."""
        self._means = {second: mean for second, mean in self._means.items() if second >= before}

    def _make_room(self, first: int, last: int) -> None:
        begin = max(first if self._newest < 0 else self._newest + 1, last - _COLLECTIVES + 1)
        if begin <= last:
            fresh = np.arange(begin, last + 1) % _COLLECTIVES
            self._shortest[fresh], self._end[fresh] = np.nan, np.nan
            self._newest = last

    def _average(self, since: int) -> None:
        """Renew the mean of each second from `since` on, which may have more steps now."""
        places = np.flatnonzero((self._end >= since) & ~np.isnan(self._shortest))
        if len(places):
            # Clocks that were set lie decades apart: there is no counting from the first to the last.
            seconds, within = np.unique(self._end[places].astype(np.int64), return_inverse=True)
            means = np.bincount(within, self._shortest[places]) / np.bincount(within)
            self._means.update(zip(seconds.tolist(), means.tolist(), strict=True))
