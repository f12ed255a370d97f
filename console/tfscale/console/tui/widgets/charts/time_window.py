"""Time axis of a curve that grows to the right and moves only when it is full, so that its dots stay where they are."""

from __future__ import annotations

from typing import NamedTuple

_SCALES = (1, 2, 5, 10, 15, 30, 60)
"""Seconds that a dot may stand for."""
_MOVES = 4
"""Parts of the axis, of which the oldest goes when the axis is full at the coarsest scale."""


class TimeWindow(NamedTuple):
    """Seconds that the dots of an axis stand for, from Unix second `begin` on."""

    begin: int
    seconds: int
    """Seconds of a dot."""
    dots: int
    """Number of dots."""

    @property
    def end(self) -> int:
        return self.begin + self.dots * self.seconds

    def dot(self, at: float) -> int | None:
        """Return the dot of a moment, None where it is outside."""
        return int(at - self.begin) // self.seconds if self.begin <= at < self.end else None


def time_window(first: int, at: float, count: int, kept: int) -> TimeWindow:
    """Return the axis of `count` dots for what was from second `first` to that of `at`, with at most `kept` seconds.

    The scale is the finest that has room for all. An axis that is full becomes coarser; at the coarsest scale it loses
    its oldest quarter.
    """
    scales = [seconds for seconds in _SCALES if seconds * count <= kept] or [_SCALES[0]]
    seconds = next((each for each in scales if first - first % each + each * count > at), scales[-1])
    begin = first - first % seconds
    beyond = int(at) + 1 - (begin + seconds * count)
    if beyond > 0:
        move = seconds * -(-count // _MOVES)
        begin += move * -(-beyond // move)
    return TimeWindow(begin, seconds, count)
