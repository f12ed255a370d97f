"""Charts in the characters of a terminal, by plotext, without colours: kinds of values differ by their characters."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import Any

from tfscale.core.plots.chart import Axis, Chart, CurveChart, IntervalChart, Kind, Point, Series, tick_label
from tfscale.core.text import bounded

WIDTH = 80
_HEIGHT = 20
_COLUMNS = 200
"""Places of a band from left to right: more than there are columns."""
_CHARACTERS = {Kind.MEASURED: "●", Kind.FORECAST: "○", Kind.REFERENCE: "·"}
_LINE, _BAR, _BAND, _MARK = "•", "│", "░", "┆"
_ASCII = str.maketrans("●○·•│░┆─┌┐└┘├┤┬┴┼", "o?.*|:!-++++||+++")
_MOST_NAME = 30


def terminal_plot(chart: Chart, width: int = WIDTH, *, is_ascii: bool = False) -> str:
    """Return the chart as lines of at most `width` columns."""
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    if isinstance(chart, CurveChart):
        figure.plot_size(width, _HEIGHT)
        keys = _curves(chart, figure)
    else:
        figure.plot_size(width, 2 * len(chart.rows) + 5)
        keys = _intervals(chart, figure)
    lines = [line.rstrip() for line in figure.build().string(colorless=True).splitlines()]
    # The words of a key stay together: a space that is none holds them.
    told = textwrap.wrap("   ".join(key.replace(" ", "\0") for key in keys), width)
    below = [line.replace("\0", " ") for line in told] + [
        line for note in chart.notes for line in textwrap.wrap(note, width)
    ]
    text = "\n".join([*textwrap.wrap(chart.title, width), *lines, *below])
    return text.translate(_ASCII).encode("ascii", "replace").decode() if is_ascii else text


def _draw(figure: Any, points: list[tuple[float, float]], character: str, *, is_line: bool = False) -> None:
    x, y = zip(*points, strict=True)
    figure.draw(figure.signal(list(x), list(y), marker=character).lines(is_line))


def _curves(chart: CurveChart, figure: Any) -> list[str]:
    """Draw a chart of curves, and return the words that tell its characters."""
    ticks, floor = chart.ticks, chart.floor
    chart = dataclasses.replace(chart, series=[_scaled(series, chart) for series in chart.series])
    bounds = [end for each in chart.series for point in each.points for end in point.bounds]
    low = _place(floor, chart.y)
    figure.label(chart.x.label, 0, 0)
    figure.label(chart.y.label, 1, 0)
    figure.ruler(0, 0).ticks([_place(tick, chart.x) for tick in ticks], [tick_label(tick) for tick in ticks])
    levels = _log_ticks(low, max(bounds)) if chart.y.is_log else _ticks(low, max(bounds))
    figure.ruler(1, 0).lim(low, low + (max(bounds) - low) * 1.02)
    figure.ruler(1, 0).ticks([_place(level, chart.y) for level in levels], [tick_label(level) for level in levels])
    for mark in chart.marks:
        place = _place(mark.x, chart.x)
        _draw(figure, [(place, low), (place, max(bounds))], _MARK, is_line=True)
    # The last to be drawn is in front.
    order = (Kind.FORECAST, Kind.REFERENCE, Kind.MEASURED)
    for series in sorted(chart.series, key=lambda each: order.index(each.kind)):
        _series(series, figure)
    keys = [f"{_CHARACTERS[series.kind]} {series.name}" for series in chart.series]
    keys += [f"{_BAND} band of the {series.name}" for series in chart.series if series.kind is Kind.FORECAST]
    return keys + [f"{_MARK} {mark.name}" for mark in chart.marks]


def _place(value: float, axis: Axis) -> float:
    """Return the place of a value: plotext takes ticks of linear scales alone, so all is placed here."""
    return math.log10(value) if axis.is_log else value


def _scaled(series: Series, chart: CurveChart) -> Series:
    points = []
    for point in series.points:
        value, low, high = (_place(max(each, chart.floor), chart.y) for each in (point.y, *point.bounds))
        points.append(Point(_place(point.x, chart.x), value, low, high))
    return dataclasses.replace(series, points=points)


def _series(series: Series, figure: Any) -> None:
    points = [(point.x, point.y) for point in series.points]
    if series.kind is Kind.FORECAST:
        for before, after in zip(series.points, series.points[1:], strict=False):
            for place in range(_COLUMNS + 1):
                share = place / _COLUMNS
                x, low, high = (
                    a + (b - a) * share
                    for a, b in zip((before.x, *before.bounds), (after.x, *after.bounds), strict=True)
                )
                _draw(figure, [(x, low), (x, high)], _BAND, is_line=True)
        points = points[1:]
    elif series.kind is Kind.REFERENCE:
        _draw(figure, points, _CHARACTERS[series.kind], is_line=True)
        return
    else:
        _draw(figure, points, _LINE, is_line=True)
        for point in series.points:
            if point.low != point.high:
                _draw(figure, [(point.x, end) for end in point.bounds], _BAR, is_line=True)
    _draw(figure, points, _CHARACTERS[series.kind])


def _intervals(chart: IntervalChart, figure: Any) -> list[str]:
    """Draw a chart of intervals, and return the words that tell its characters."""
    last = len(chart.rows) - 1
    known = [end for row in chart.rows for end in (row.low, row.value, row.high) if end is not None]
    ends = [*known, chart.base - chart.margin, chart.base + chart.margin]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    ticks = _ticks(min(ends), max(ends))
    figure.ruler(0, 0).lim(min(ends) - room, max(ends) + room).ticks(ticks, [tick_label(tick) for tick in ticks])
    figure.ruler(1, 0).lim(-0.5, last + 0.5)
    figure.ruler(1, 0).ticks(list(range(last, -1, -1)), [bounded(row.name, _MOST_NAME) for row in chart.rows])
    figure.label(chart.x.label, 0, 0)
    for side in (-chart.margin, chart.margin) if chart.margin else ():
        _draw(figure, [(chart.base + side, -0.5), (chart.base + side, last + 0.5)], "·", is_line=True)
    _draw(figure, [(chart.base, -0.5), (chart.base, last + 0.5)], _MARK, is_line=True)
    for place, row in zip(range(last, -1, -1), chart.rows, strict=True):
        if row.low is not None and row.high is not None:
            _draw(figure, [(row.low, place), (row.high, place)], "─", is_line=True)
        if row.value is not None:
            _draw(figure, [(row.value, place)], "●" if row.is_decided else "○")
    margin = [f"· {chart.margin:g}{chart.x.unit} beside it"] if chart.margin else []
    return ["● decided   ○ undecided", f"{_MARK} base", *margin]


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two, at most six of them."""
    least = (high - low) / 5 or 1.0
    size = 10 ** math.floor(math.log10(least))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= least)
    return [round(step * place, 12) for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between the powers of ten of two exponents."""
    found = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for factor in (1, 2, 5)]
    return [each for each in found if low <= math.log10(each) <= high]
