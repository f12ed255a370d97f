"""Curve of one of the cluster's figures in a frame: now, least, mean and largest above, and the clock below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from tfscale.console.tui.widgets.appearance.region_frames import framed
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.dot_canvas import DotCanvas, Mark
from tfscale.console.tui.widgets.charts.step_bar import scale_for
from tfscale.console.tui.widgets.charts.time_window import TimeWindow
from tfscale.core.text import clock

TICKS = 8
"""Cells of the numbers beside the curve."""
_ROUND = 4
"""Least number of round steps between the ends of a scale that does not begin at 0."""

Sign = tuple[str, str]
"""Sign on the time axis, and its colour."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure with the format of its numbers, and the scale of its curve."""

    name: str
    format_value: Callable[[float | None], str]
    colour: str
    """Name of a part of the bars, whose colour the curve has."""
    top: float | None = None
    """Upper end of the scale; None where it follows the values."""
    begins_at_zero: bool = True

    def scale(self, values: NDArray[np.floating]) -> tuple[float, float]:
        """Return the ends of the scale of these values: round numbers, so that they seldom move."""
        known = values[~np.isnan(values)]
        if self.top is not None or not len(known):
            return 0.0, self.top or 1.0
        low, high = float(known.min()), float(known.max())
        if self.begins_at_zero:
            return 0.0, scale_for(high)
        step = scale_for(max(high - low, abs(high) * 0.01, 1e-9) / _ROUND)
        return math.floor(low / step) * step, math.ceil(high / step) * step


@dataclass(frozen=True, slots=True)
class FigureCurve:
    """A figure over time: (k,) means of the dots that are over, NaN unknown, and the text of its newest value."""

    figure: Figure
    now: str
    values: NDArray[np.floating]


def curve_lines(
    curve: FigureCurve, window: TimeWindow, marks: Mapping[int, Sign], size: tuple[int, int], appearance: Appearance
) -> list[Text]:
    """Draw a curve in a frame of this width and height; `marks` are the signs on its axis by cell."""
    width, height = size
    room, rows = width - 2 - TICKS, max(1, height - 3)
    figure = curve.figure
    low, high = figure.scale(curve.values)
    canvas = DotCanvas(room, rows, appearance)
    _put(canvas, curve.values, low, high)
    lines = canvas.lines([Mark(appearance.palette.parts[figure.colour], "*")])
    palette, spell = appearance.palette, appearance.spell
    ticks = {0: figure.format_value(high), rows - 1: figure.format_value(low)} if rows > 1 else {}
    lines = [
        Text(f"{spell(ticks.get(row, ''))[: TICKS - 1]:>{TICKS - 1}} ", style=palette.dim).append_text(line)
        for row, line in enumerate(lines)
    ]
    axis = Text(" " * TICKS)
    for cell in range(room):
        sign, colour = marks.get(cell, (appearance.glyphs.rule, palette.faint))
        axis.append(sign, style=colour)
    title, foot = _title(curve, appearance), appearance.glyphs.rule * TICKS + clock(window.begin)
    for words in (extent := _extents(curve)):
        if title.cell_len + 2 + len(words) <= width - 4:
            title.append(f"  {spell(words)}", style=palette.dim)
            break
    else:
        # A narrow chart has them in the place of the time of its begin.
        foot = spell(extent[-1]) if extent else foot
    return framed([*lines, axis], title, (foot, clock(window.end)), width, appearance)


def _title(curve: FigureCurve, appearance: Appearance) -> Text:
    palette = appearance.palette
    return Text.assemble((f"{curve.figure.name} ", palette.dim), (appearance.spell(curve.now), f"bold {palette.text}"))


def _extents(curve: FigureCurve) -> tuple[str, ...]:
    """Return the least value, the mean and the largest in words, and shorter; nothing where no value is known."""
    known = curve.values[~np.isnan(curve.values)]
    if not len(known):
        return ()
    least, mean, most = (curve.figure.format_value(float(each)) for each in (known.min(), known.mean(), known.max()))
    return f"min {least}  mean {mean}  max {most}", f"{least} < {mean} < {most}", f"{least}<{mean}<{most}"


def _put(canvas: DotCanvas, values: NDArray[np.floating], low: float, high: float) -> None:
    """Put the dots of the curve; neighbours are joined by an upright line, which the later one has."""
    if canvas.across == 1:
        values = _pairs(values)
    share = (values - low) / (high - low) if high > low else np.where(np.isnan(values), np.nan, 0.5)
    before = None
    for x, value in enumerate(share.tolist()):
        if math.isnan(value):
            before = None
            continue
        y = round(min(max(value, 0.0), 1.0) * (canvas.rows - 1))
        reach = y if before is None or abs(y - before) < 2 else before + (1 if y > before else -1)
        canvas.put(1, x, slice(min(y, reach), max(y, reach) + 1))
        before = y


def _pairs(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the means of two dots each: a cell without braille has one."""
    pairs = np.pad(values, (0, len(values) % 2), constant_values=np.nan).reshape(-1, 2)
    return means(pairs)


def means(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the means of the known values along the last axis, NaN where none is known."""
    is_known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(is_known, values, 0.0).sum(axis=-1) / is_known.sum(axis=-1))
