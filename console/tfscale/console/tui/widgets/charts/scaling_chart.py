"""Chart of the forecast speedup by number of workers, with its band, beside the ideal line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from rich.text import Text
from tfscale.console.analysis.run.scaling import Forecast
from tfscale.console.tui.widgets.appearance.theme import Appearance

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a braille cell, by row and column."""
_AXIS = 6
"""Cells for the numbers of the vertical axis."""

Curve = Callable[[float], Forecast]
"""Speedup over one worker by number of workers, with its band."""

Dots = dict[tuple[int, int], str]
"""Kind of each dot, `ideal`, `band` or `now`, by column and by row from below."""


def draw(curve: Curve, now: int, most: int, width: int, height: int, appearance: Appearance) -> list[Text]:
    """Draw `height` lines of `width` cells for 1 to `most` workers; `now` is the present number."""
    inside, rows = max(8, width - _AXIS), max(3, height - 2)
    fine = (1, 1) if appearance.letters or not appearance.glyphs.eighths else (2, 4)
    dots = _dots(curve, now, most, inside * fine[0], rows * fine[1])
    lines = [_line(dots, row, inside, fine, appearance) for row in range(rows - 1, -1, -1)]
    labels = {0: f"{most}x", rows // 2: f"{most / 2:g}x", rows - 1: "0x"}
    palette = appearance.palette
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
    return [*drawing, axis, _legend(fine == (2, 4), appearance)]


def _dots(curve: Curve, now: int, most: int, columns: int, rows: int) -> Dots:
    dots: Dots = {}
    for column in range(columns):
        size = 1 + (most - 1) * column / max(columns - 1, 1)
        forecast = curve(size)
        low, high = (edge / most * (rows - 1) for edge in (forecast.low, forecast.high))
        if column % 3 == 0:
            dots[column, round(size / most * (rows - 1))] = "ideal"
        for row in range(round(low), round(high) + 1):
            dots[column, row] = "band"
    middle = round((now - 1) / max(most - 1, 1) * (columns - 1))
    dots[middle, round(curve(now).throughput / most * (rows - 1))] = "now"
    return dots


def _line(dots: Dots, row: int, width: int, fine: tuple[int, int], appearance: Appearance) -> Text:
    cells = [_cell(dots, column, row, fine, appearance) for column in range(width)]
    line = Text(no_wrap=True)
    for colour, run in groupby(cells, key=lambda cell: cell[1]):
        line.append("".join(cell[0] for cell in run), style=colour)
    return line


def _cell(dots: Dots, column: int, row: int, fine: tuple[int, int], appearance: Appearance) -> tuple[str, str]:
    across, down = fine
    inside = {
        (x, y): dots[column * across + x, row * down + y]
        for x in range(across)
        for y in range(down)
        if (column * across + x, row * down + y) in dots
    }
    kinds = set(inside.values())
    kind = next((name for name in ("now", "band", "ideal") if name in kinds), "")
    if kind == "now":
        return appearance.glyphs.running, appearance.palette.text
    colour = appearance.palette.parts["transfer"] if kind == "band" else appearance.palette.dim
    if fine == (1, 1):
        return {"band": "#", "ideal": "."}.get(kind, " "), colour
    bits = sum(_DOTS[down - 1 - y][x] for (x, y), other in inside.items() if other == kind or kind == "band")
    return (chr(0x2800 + bits) if bits else " "), colour


def _legend(is_fine: bool, appearance: Appearance) -> Text:
    palette = appearance.palette
    text = Text(" " * _AXIS, no_wrap=True)
    text.append("⣿ " if is_fine else "# ", style=palette.parts["transfer"])
    text.append("forecast   ", style=palette.dim)
    text.append("⠒ " if is_fine else ". ", style=palette.dim)
    text.append("ideal   ", style=palette.dim)
    text.append(f"{appearance.glyphs.running} ", style=palette.text)
    return text.append("now, as the model has it", style=palette.dim)
