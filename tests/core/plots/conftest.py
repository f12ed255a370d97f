"""Charts that the renderers' tests draw."""

from __future__ import annotations

import pytest
from tfscale.core.plots.chart import Axis, Chart, CurveChart, Interval, IntervalChart, Kind, Mark, Point, Series

_MEASURED = [Point(1, 8523, 6248, 11025, "100%"), Point(2, 14574, 12168, 17322, "85%"), Point(4, 24454, 22262, 25739)]
_CURVES = CurveChart(
    "Weak scaling of digits",
    Axis("workers"),
    Axis("throughput", "examples/s"),
    [
        Series("measured", Kind.MEASURED, _MEASURED),
        Series("forecast", Kind.FORECAST, [Point(4, 24454), Point(8, 46000, 39000, 50000, "67%")]),
        Series("as many times one worker", Kind.REFERENCE, [Point(1, 8523), Point(8, 8523 * 8)]),
    ],
    marks=[Mark(4, "knee at 4")],
    notes=["bars: lowest to highest of 3 runs"],
)
_INTERVALS = IntervalChart(
    "Time of an example against the base",
    Axis("change of the time", "%"),
    [
        Interval("batch=32", 0, words="base"),
        Interval("batch=64", -12, -15, -9, "faster -12.0% (-15.0% to -9.0%)"),
        Interval("batch=128", 2, -5, 9, "undecided", is_decided=False),
        Interval("batch=256", None, words="a run failed"),
    ],
    margin=3,
)


@pytest.fixture
def curves() -> CurveChart:
    return _CURVES


@pytest.fixture
def intervals() -> IntervalChart:
    return _INTERVALS


@pytest.fixture(params=[_CURVES, _INTERVALS], ids=["curves", "intervals"])
def chart(request: pytest.FixtureRequest) -> Chart:
    return request.param  # type: ignore[no-any-return]
