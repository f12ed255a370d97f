"""Time of one step from edge to edge, summed by phase: pure Python, no TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

UNKNOWN = math.nan
UPDATE, HOST, INPUT, COMPUTE = "update", "host", "input", "compute"

Interval = tuple[float, float]


@dataclass
class Timeline:
    """Walk along the edges of a step. An unknown edge (NaN) leaves the phases on both of its sides unknown.

    `waits` are reductions and count as time in `reduce` wherever they fall; `pauses` are the process's other
    activities. Neither is part of the phase around it. All times are Unix seconds.
    """

    start: float
    waits: list[Interval]
    pauses: list[Interval]
    phases: dict[str, float] = field(default_factory=lambda: dict.fromkeys((UPDATE, HOST, INPUT, COMPUTE), 0.0))
    """Seconds."""
    waited: float = 0.0
    """Seconds of waits so far."""
    clamped: bool = False
    """True once an edge was moved."""
    legs: list[tuple[str, float, float, float]] = field(default_factory=list)
    """(phase, begin, end, net seconds) of all legs so far."""
    _at: float = field(init=False)
    _latest: float = field(init=False)

    def __post_init__(self) -> None:
        self._at = self.start
        self._latest = -math.inf if math.isnan(self.start) else self.start

    def go(self, phase: str, edge: float) -> None:
        """Let the phase last until `edge`, or be empty where iterations overlap and `edge` precedes the last one."""
        if edge < self._latest:
            edge, self.clamped = self._latest, True
        waited = overlap(self.waits, self._at, edge)
        net = max(0.0, edge - self._at - waited - overlap(self.pauses, self._at, edge))
        self.phases[phase] += math.nan if math.isnan(edge - self._at) else net
        self.waited += waited
        self.legs.append((phase, self._at, edge, net))
        self._at = edge
        self._latest = edge if edge > self._latest else self._latest

    @property
    def at(self) -> float:
        """Last edge that was known."""
        return self._latest


def overlap(intervals: Iterable[Interval], begin: float, end: float) -> float:
    """Return the seconds of [begin, end] that the intervals cover, each counted by itself; 0 for an unknown end."""
    if math.isnan(begin) or math.isnan(end):
        return 0.0
    return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in intervals)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same time as intervals that do not overlap, in order."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged
