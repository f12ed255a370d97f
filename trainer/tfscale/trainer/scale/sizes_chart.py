"""Chart of measured sizes: throughput over workers, beside the line of ideal scaling and the forecast."""

from __future__ import annotations

import shlex

from tfscale.core.plots.chart import Axis, CurveChart, Kind, Mark, Point, Series
from tfscale.trainer.scale.measured_sizes import MeasuredSizes
from tfscale.trainer.scale.scaling_report import NOTHING_SAID, where

_FAR = 16
"""Ratio of the largest to the smallest size from which both axes are logarithmic: small sizes would be one point."""
_HIGH = 30
"""Ratio of the highest to the lowest throughput from which they are, too: low ones would lie on the axis."""


def sizes_chart(sizes: MeasuredSizes) -> CurveChart:
    """Return the chart of at least one measured size."""
    first, told = sizes.measured[0], sizes.forecast
    measured = [
        Point(size.number, size.rate, min(size.rates), max(size.rates), f"{sizes.efficiency(size):.0%}")
        for size in sizes.measured
    ]
    largest = told.workers if told else sizes.measured[-1].number
    series = [Series("measured", Kind.MEASURED, measured)]
    if told:
        share = told.throughput / (first.rate / first.workers * told.workers)
        end = Point(told.workers, told.throughput, told.low, told.high, f"{share:.0%}")
        series.append(Series("forecast", Kind.FORECAST, [measured[-1], end]))
    if not sizes.plan.workers:
        one = "one worker" if first.workers == 1 else f"{first.workers} workers"
        ideal = [Point(size, first.rate / first.workers * size) for size in (first.workers, largest)]
        series.append(Series(f"ideal, from {one}", Kind.REFERENCE, ideal))
    knee = sizes.knee if sizes.is_judged else None
    heights = [point.y for each in series for point in each.points]
    is_log = largest / first.number >= _FAR or max(heights) / min(heights) >= _HIGH
    return CurveChart(
        f"{_heading(sizes)}: {_subject(sizes)}",
        Axis(f"{sizes.plan.noun}s", is_log=is_log),
        Axis("throughput", sizes.unit, is_log=is_log),
        series,
        marks=[Mark(knee, f"knee at {knee}")] if knee is not None else [],
        notes=list(_notes(sizes)),
    )


def _heading(sizes: MeasuredSizes) -> str:
    if sizes.plan.workers:
        return f"{sizes.plan.workers} workers, by hosts"
    return f"{sizes.plan.kind.capitalize()} scaling"


def _subject(sizes: MeasuredSizes) -> str:
    return shlex.join([sizes.plan.program or "", *sizes.plan.words] if sizes.plan.program else sizes.plan.words)


def _notes(sizes: MeasuredSizes) -> list[str]:
    plan = sizes.plan
    notes = [f"{where(plan)}"]
    if plan.runs > 1:
        notes.append(f"bars: lowest to highest of {plan.runs} runs a size")
    if sizes.forecast:
        notes.append("forecast: not measured")
    if sizes.says_nothing:
        notes.append(NOTHING_SAID)
    elif sizes.is_apart:
        notes.append("no strategy joins these workers")
    elif sizes.other_kind:
        notes.append(f"asked for {plan.kind} scaling, but this is {sizes.other_kind}")
    if missing := [str(size.number) for size in (*sizes.missing, *sizes.failed)]:
        notes.append(f"not all runs are there of: {', '.join(missing)}")
    return notes
