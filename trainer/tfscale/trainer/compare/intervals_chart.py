"""Chart of a comparison: the interval of each setting against the base."""

from __future__ import annotations

from tfscale.core.comparison.judgement import Verdict
from tfscale.core.plots.chart import Axis, Interval, IntervalChart
from tfscale.core.text import plural
from tfscale.trainer.compare.comparison import Comparison, Row
from tfscale.trainer.compare.table import change_words

_FAR = 400.0
"""Bound in percent beyond which an interval says nothing: it would hide all others, and is not drawn."""


def intervals_chart(comparison: Comparison) -> IntervalChart:
    """Return the chart of all settings; one without a measured run is an empty row."""
    rows, settings = comparison.rows(), comparison.rounds
    runs = plural(max(len(row.measured) for row in rows), "run")
    base = rows[0].trial.name
    knows = all(run.examples for row in rows for run in row.measured)
    return IntervalChart(
        title=f"Time of {'an example' if knows else 'a step'} against {base}",
        x=Axis("change of the mean time; less is faster", "%"),
        rows=[_interval(row, is_base=row is rows[0]) for row in rows],
        margin=100 * settings.margin,
        notes=[
            f"Intervals of runs, {1 - settings.error:.0%} each; {runs} of a setting at most. "
            f"Stripe: less than {settings.margin:.0%} either way. Hollow: undecided.",
            *([f"Intervals that reach beyond {_FAR:.0f}% are left out."] if any(map(_reaches_far, rows)) else []),
        ],
    )


def _interval(row: Row, *, is_base: bool) -> Interval:
    judged, name = row.judgement, row.trial.name
    if is_base and not row.reason:
        return Interval(name, 0.0, words="base")
    if judged is None or row.reason:
        return Interval(name, None, words=change_words(row))
    known = not _reaches_far(row)
    return Interval(
        name,
        100 * judged.change,
        100 * judged.low if known else None,
        100 * judged.high if known else None,
        f"{judged.verdict}" + " !" * row.is_other_training,
        is_decided=judged.verdict is not Verdict.UNDECIDED,
    )


def _reaches_far(row: Row) -> bool:
    return row.judgement is not None and not row.reason and not 100 * row.judgement.high < _FAR
