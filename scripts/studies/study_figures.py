"""Figures of a study: ratios with their intervals over runs, as words of a table and as rows of a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from tfscale.core.comparison.judgement import ERROR
from tfscale.core.comparison.student_t import two_sided
from tfscale.core.plots.chart import Axis, Interval, IntervalChart

NOTE = "Mean of the runs, with the 95 % t-interval of several. Real TensorFlow workers in network namespaces."


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of the runs' ratios, and the ends of its t-interval (95 %), of logarithms; NaN of one run."""
    logs, count = [math.log(ratio) for ratio in ratios], len(ratios)
    middle = fmean(logs)
    half = two_sided(ERROR, count - 1) * stdev(logs) / math.sqrt(count) if count > 1 else math.nan
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def interval_words(ratios: Sequence[float]) -> str:
    """Return how far the ratios are from 1: `+9.3% (+7.9% to +10.7%)`."""
    middle, low, high = (each - 1 for each in interval(ratios))
    return f"{middle:+.1%}" + (f" ({low:+.1%} to {high:+.1%})" if high < math.inf else " (one run)")


def chart_row(name: str, ratios: Sequence[float]) -> Interval:
    """Return the row of a chart for ratios, as percents above 1."""
    return interval_row(name, [100 * (each - 1) for each in interval(ratios)])


def interval_row(name: str, values: Sequence[float]) -> Interval:
    """Return the row of a chart for a middle and the ends of its interval, which are not known of one run."""
    middle, low, high = values
    return Interval(name, middle, *((low, high) if high < math.inf else (None, None)))


def ratio_chart(title: str, axis: str, rows: Sequence[Interval], margin: float = 0.0) -> IntervalChart:
    """Return a chart of percents, with a stripe of so many percents around 0."""
    return IntervalChart(title, Axis(axis, "%"), rows, margin=margin, notes=[NOTE])


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"
