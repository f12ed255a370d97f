"""Chart of one measure of a task over time, above the band in which most of its peers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from tfscale.console.history.peer_bands import HIGH, LOW
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.dot_canvas import DotCanvas, Mark
from tfscale.console.tui.widgets.charts.step_bar import scale_for

_ONSET, _CURSOR, _BAND, _LINE = 1, 2, 3, 4
"""Kinds of dots."""
_FROM_ZERO = 0.5
"""Share of the largest value below which the least is drawn on a scale from 0: only what hardly differs is enlarged."""
_LEAST_SPAN = 0.1
"""Least height of an enlarged scale, as a share of its top: noise stays flat."""
LINE_LETTER, BAND_LETTER = "#", "."


@dataclass(frozen=True, slots=True)
class Curve:
    """Line of a task, (columns,), and the band of its peers, (3, columns); NaN unknown, None without peers."""

    line: NDArray[np.floating]
    band: NDArray[np.floating] | None

    def scale(self, width: int, top: float | None) -> tuple[float, float]:
        """Return the values at the lower and the upper edge for the newest `width` columns; `top` is a fixed end."""
        parts = [self.line] if self.band is None else [self.line, self.band[LOW], self.band[HIGH]]
        known = np.concatenate([part[-width:] for part in parts])
        known = known[~np.isnan(known)]
        if not len(known):
            return 0.0, top or 1.0
        least, most = float(known.min()), float(known.max())
        if top is not None:
            return min(0.0, least), max(top, most)
        if 0 <= least <= _FROM_ZERO * most or most == 0:
            return min(0.0, least), scale_for(most)
        margin = max((most - least) * 0.1, (_LEAST_SPAN * abs(most) - (most - least)) / 2)
        return least - margin, most + margin


@dataclass(frozen=True, slots=True)
class Moments:
    """Columns that are marked, counted from the right, 0 the newest: the begin of a finding, and the cursor."""

    onset: int | None = None
    onset_colour: str = ""
    cursor: int | None = None


def draw(
    curve: Curve, scale: tuple[float, float], size: tuple[int, int], colour: str, moments: Moments, look: Appearance
) -> list[Text]:
    """Draw a curve in `size`, cells and lines, newest on the right, with its marked moments."""
    width, height = size
    canvas = DotCanvas(width, height, look)

    def rows(values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the row of each column's value, NaN unknown."""
        low, high = scale
        return np.asarray(np.clip(np.rint((values - low) / (high - low) * (canvas.rows - 1)), 0, canvas.rows - 1))

    for kind, back in ((_ONSET, moments.onset), (_CURSOR, moments.cursor)):
        if back is not None and back < width:
            canvas.put(kind, (width - 1 - back) * canvas.across, slice(None))
    if curve.band is not None:
        for low, high, columns in _cells(rows(curve.band[LOW]), rows(curve.band[HIGH]), canvas, width):
            canvas.put(_BAND, columns, slice(low, high + 1))
    line = rows(curve.line)
    for row, _, columns in _cells(line, line, canvas, width):
        canvas.put(_LINE, columns, row)
    if canvas.down > 1:
        _join(line, canvas, width)
    palette, glyphs = look.palette, look.glyphs
    marks = (
        Mark(moments.onset_colour or palette.dim, glyphs.onset, glyphs.onset),
        Mark(palette.text, glyphs.hairline, glyphs.hairline),
        Mark(palette.dim, BAND_LETTER),
        Mark(colour, LINE_LETTER),
    )
    shaded = None
    if moments.cursor is not None and moments.cursor < width:
        shaded = width - 1 - moments.cursor, palette.selected
    return canvas.lines(marks, shaded)


def _cells(
    low: NDArray[np.floating], high: NDArray[np.floating], canvas: DotCanvas, width: int
) -> list[tuple[int, int, slice]]:
    """Return the lowest and highest row of each known column, and its dots beside each other."""
    first = width - min(width, len(low))
    places = zip(low[-width:].tolist(), high[-width:].tolist(), strict=True)
    return [
        (int(bottom), int(top), slice((first + index) * canvas.across, (first + index + 1) * canvas.across))
        for index, (bottom, top) in enumerate(places)
        if bottom == bottom and top == top
    ]


def _join(line: NDArray[np.floating], canvas: DotCanvas, width: int) -> None:
    """Join the line of each column upright with that of the column before."""
    shown = line[-width:]
    first = width - len(shown)
    for index in np.flatnonzero(np.diff(shown, prepend=np.nan) != 0).tolist():
        before, after = shown[index - 1] if index else np.nan, shown[index]
        if before == before and after == after:
            low, high = int(min(before, after)), int(max(before, after))
            canvas.put(_LINE, (first + index) * canvas.across, slice(low, high + 1))
