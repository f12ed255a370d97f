"""Chart of the forecast speedup by number of workers, with its band, beside the ideal line."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.dot_canvas import DotCanvas, Mark
from tfscale.core.comparison.size_forecast import Forecast

_IDEAL, _BAND, _NOW = 1, 2, 3
"""Kinds of dots."""
_AXIS = 6
"""Cells for the numbers of the vertical axis."""

Curve = Callable[[float], Forecast]
"""Speedup over one worker by number of workers, with its band."""


def draw(curve: Curve, now: int, most: int, width: int, height: int, appearance: Appearance) -> list[Text]:
    """Draw `height` lines of `width` cells for 1 to `most` workers; `now` is the present number."""
    inside, rows = max(8, width - _AXIS), max(3, height - 2)
    canvas = DotCanvas(inside, rows, appearance)
    _put(canvas, curve, now, most)
    palette, signs = appearance.palette, appearance.glyphs
    band, ideal = Mark(palette.parts["transfer"], "#", takes_lower=True), Mark(palette.dim, ".")
    lines = canvas.lines([ideal, band, Mark(palette.text, signs.running, signs.running)])
    labels = {0: f"{most}x", rows // 2: f"{most / 2:g}x", rows - 1: "0x"}
    drawing = [
        Text(f"{labels.get(row, ''):>{_AXIS - 1}} ", style=palette.dim).append_text(line)
        for row, line in enumerate(lines)
    ]
    ticks = [" "] * inside
    for size in (1, now, most):
        name = f"{size:,}" if size != now else f"{size:,} now"
        at = min(inside - len(name), round((size - 1) / max(most - 1, 1) * (inside - 1)))
        if all(char == " " for char in ticks[max(0, at - 1) : at + len(name) + 1]):
            ticks[at : at + len(name)] = name
    axis = Text(" " * _AXIS + "".join(ticks), style=palette.dim)
    return [*drawing, axis, _legend(canvas.down > 1, appearance)]


def _put(canvas: DotCanvas, curve: Curve, now: int, most: int) -> None:
    top = canvas.rows - 1
    for column in range(canvas.columns):
        size = 1 + (most - 1) * column / max(canvas.columns - 1, 1)
        forecast = curve(size)
        if column % 3 == 0:
            canvas.put(_IDEAL, column, round(size / most * top))
        canvas.put(_BAND, column, slice(round(forecast.low / most * top), round(forecast.high / most * top) + 1))
    middle = round((now - 1) / max(most - 1, 1) * (canvas.columns - 1))
    canvas.put(_NOW, middle, round(curve(now).throughput / most * top))


def _legend(is_fine: bool, appearance: Appearance) -> Text:
    palette = appearance.palette
    text = Text(" " * _AXIS, no_wrap=True)
    text.append("⣿ " if is_fine else "# ", style=palette.parts["transfer"])
    text.append("forecast   ", style=palette.dim)
    text.append("⠒ " if is_fine else ". ", style=palette.dim)
    text.append("ideal   ", style=palette.dim)
    text.append(f"{appearance.glyphs.running} ", style=palette.text)
    return text.append("now, as the model has it", style=palette.dim)
