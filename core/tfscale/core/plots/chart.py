"""Descriptions of charts, which a renderer draws: as a picture, or in characters.

Measured and forecast values are told apart by the kind of their series, never by a colour alone. Numbers are in the
unit of their axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.core.text_enum import TextEnum


class Kind(TextEnum):
    """Origin of the values of a series, by which it is drawn."""

    MEASURED = "measured"
    """Filled points, joined, with an interval where a point has one."""
    FORECAST = "forecast"
    """Hollow points, joined by a dashed line, in a band between the bounds of the points."""
    REFERENCE = "reference"
    """Dotted line without points, such as ideal scaling."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of a chart."""

    name: str
    unit: str = ""
    """Unit of its numbers; empty for a number of things."""
    ticks: Sequence[float] = ()
    """Numbers at which there is a tick; none: the renderer chooses."""
    is_log: bool = False
    """True for a logarithmic scale, which takes numbers above 0 alone."""

    @property
    def label(self) -> str:
        """Name with the unit: `throughput (examples/s)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Point:
    """One value, with the bounds of its interval or band where it has them."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""
    """Word beside the point, in pictures alone: a terminal has a table above the plot."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds; without any both are the value."""
        return (self.y if self.low is None else self.low, self.y if self.high is None else self.high)


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one kind, from left to right."""

    name: str
    kind: Kind
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Mark:
    """Vertical line at a place of the x-axis, such as a knee."""

    x: float
    name: str


@dataclass(frozen=True, slots=True)
class CurveChart:
    """Series over an x-axis. The y-axis begins at 0 unless it is logarithmic."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()
    """Lines below the chart: where and when it was measured, and what bars and bands are."""

    @property
    def ticks(self) -> list[float]:
        """Ticks of the x-axis: its own, else the places of all points."""
        return sorted(self.x.ticks or {point.x for each in self.series for point in each.points})

    @property
    def floor(self) -> float:
        """Begin of the y-axis: 0, and on a logarithmic scale, where 0 has no place, half the least number above it."""
        ends = [end for each in self.series for point in each.points for end in point.bounds if end > 0]
        return min(ends, default=1.0) / 2 if self.y.is_log else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """Row of an interval chart."""

    name: str
    value: float | None
    """None: nothing is known, and the row is empty."""
    low: float | None = None
    """Lower bound; None: no interval is known."""
    high: float | None = None
    words: str = ""
    """Words at the end of the row, such as the verdict; in pictures alone."""
    is_decided: bool = True
    """False: the point is hollow."""


@dataclass(frozen=True, slots=True)
class IntervalChart:
    """Intervals below each other around a base line, a forest plot."""

    title: str
    x: Axis
    rows: Sequence[Interval]
    base: float = 0.0
    margin: float = 0.0
    """Half width of the shaded stripe around the base line, in which nobody minds a change."""
    notes: Sequence[str] = ()


Chart = CurveChart | IntervalChart


def tick_label(value: float) -> str:
    """Return a number without the noise of binary fractions: `1,500`, `0.3`."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.10g}"
