"""Charts in characters."""

from __future__ import annotations

import pytest
from tfscale.core.plots.chart import Axis, Chart, CurveChart, IntervalChart, Kind, Point, Series
from tfscale.core.plots.terminal_plot import terminal_plot


@pytest.mark.parametrize("width", [80, 60])
def test_no_line_is_wider_than_the_terminal_and_none_has_control_characters(chart: Chart, width: int) -> None:
    for is_ascii in (False, True):
        drawn = terminal_plot(chart, width, is_ascii=is_ascii)
        assert max(map(len, drawn.splitlines())) <= width
        assert "\x1b" not in drawn and drawn.isascii() is is_ascii
        assert chart.title in drawn and chart.x.label in drawn


def test_measured_forecast_and_ideal_have_characters_of_their_own(curves: CurveChart) -> None:
    frame, _, keys = terminal_plot(curves).rpartition("┘")
    assert [frame.count(each) for each in "●○"] == [3, 1]
    assert frame.count("·") > 20 and frame.count("░") > 20
    for key in ("● measured", "○ forecast", "· as many times one worker", "░ band of the forecast", "┆ knee at 4"):
        assert key in keys
    assert "bars: lowest to highest of 3 runs" in keys.splitlines()


def test_points_stand_where_their_values_are(curves: CurveChart) -> None:
    lines = terminal_plot(curves).splitlines()
    rows = {character: [place for place, line in enumerate(lines[:20]) if character in line] for character in "●○"}
    one, two, four = rows["●"][::-1]
    columns = [lines[row].index("●") for row in (one, two, four)]
    assert one > two > four > rows["○"][0] and columns == sorted(columns)
    assert lines[two].index("●") - lines[one].index("●") < lines[four].index("●") - lines[two].index("●")


def test_a_row_of_an_interval_chart_has_its_interval_and_whether_it_is_decided(intervals: IntervalChart) -> None:
    lines = terminal_plot(intervals).splitlines()
    row = {name: next(line for line in lines if name in line) for name in ("batch=64", "batch=128", "batch=256")}
    assert "─●─" in row["batch=64"] and "─○─" in row["batch=128"] and not set("●○─") & set(row["batch=256"])
    assert row["batch=64"].rindex("─") < row["batch=64"].index("·")


def test_on_logarithmic_axes_a_power_law_is_a_straight_line() -> None:
    points = [Point(x, 100 * x) for x in (1, 8, 64)]
    chart = CurveChart("t", Axis("workers", is_log=True), Axis("rate", is_log=True),
                       [Series("measured", Kind.MEASURED, points)])  # fmt: skip
    lines = terminal_plot(chart).splitlines()
    (top, right), (middle, centre), (bottom, left) = [
        (row, line.index("●")) for row, line in enumerate(lines[:20]) if "●" in line
    ]
    assert abs(top + bottom - 2 * middle) <= 1 and abs(left + right - 2 * centre) <= 1
    ticks = lines[next(row for row, line in enumerate(lines) if "└" in line) + 1]
    assert ticks.split() == ["1", "8", "64"] and any(line.startswith("1,000") for line in lines)


def test_a_band_that_reaches_0_ends_at_the_begin_of_a_logarithmic_axis() -> None:
    points = [Point(1, 400), Point(2, 700, 0, 1200)]
    chart = CurveChart("t", Axis("workers"), Axis("rate", is_log=True), [Series("forecast", Kind.FORECAST, points)])
    lines = terminal_plot(chart).splitlines()
    levels = [line.partition("┤")[0].strip() for line in lines if "┤" in line]
    assert chart.floor == 200 and levels == ["1,000", "500", "200"]
    assert lines[16].count("░") > 0
