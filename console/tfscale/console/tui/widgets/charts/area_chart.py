"""Stacked areas over time, drawn in eighths of a cell, or in letters if the terminal cannot.

No plotting library draws stacked areas without colours, or keeps a column unchanged while time goes on; and this module
is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.text import Text
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.console.tui.widgets.charts.step_bar import merged

LEVELS = "▁▂▃▄▅▆▇"
"""Blocks from one eighth of a cell to seven, upwards."""
_NEARLY_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Area:
    """Part of a stack: (columns,) values, NaN unknown, and the letter that draws the part without colours."""

    colour: str
    letter: str
    values: NDArray[np.floating]


def columns(values: NDArray[np.floating], at: NDArray[np.int64], seconds: int) -> NDArray[np.floating]:
    """Return the means of the known values in columns of `seconds` each.

    Columns begin at multiples of `seconds` of the clock, so that a full column keeps its value and only moves.
    """
    number = at // seconds - at[0] // seconds
    is_known = ~np.isnan(values)
    count = np.bincount(number, is_known)
    sums = np.bincount(number, np.where(is_known, values, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / count)


def draw(areas: Sequence[Area], top: float, width: int, height: int, appearance: Appearance) -> list[Text]:
    """Draw `height` lines of `width` cells, newest on the right; a full column stands for `top`."""
    edges = _edges(areas, top, height)[:, -width:]
    margin = [Segment(" " * (width - edges.shape[1]), style(None, appearance.palette.background))]

    @cache
    def cell(*eighths: int) -> Segment:
        return _cell(areas, eighths, appearance)

    lines = []
    for row in range(height - 1, -1, -1):
        inside = np.diff(np.clip(edges, row * 8, row * 8 + 8), axis=0)
        pieces = merged([*margin, *map(cell, *inside.tolist())])
        lines.append(Text.assemble(*((segment.text, segment.style or "") for segment in pieces), no_wrap=True))
    return lines


def _edges(areas: Sequence[Area], top: float, height: int) -> NDArray[np.int64]:
    """Return (areas + 1, columns): the lower edge of each area in eighths of a cell from below, and the top."""
    values = np.stack([np.nan_to_num(area.values) for area in areas])
    heights = np.cumsum(values, axis=0) / max(top, _NEARLY_NOTHING) * height * 8
    # A value above zero fills at least one eighth, so that it is seen.
    heights = np.where((values > 0) & (heights < 1), 1, heights)
    ends = np.minimum(np.rint(heights), height * 8).astype(np.int64)
    return np.concatenate([np.zeros((1, ends.shape[1]), np.int64), ends])


def _cell(areas: Sequence[Area], parts: Sequence[int], appearance: Appearance) -> Segment:
    """Draw one cell from the eighths that each area fills."""
    shares = [(index, eighths) for index, eighths in enumerate(parts) if eighths > 0]
    background = appearance.palette.background
    filled = sum(eighths for _, eighths in shares)
    if appearance.letters:
        letter = areas[max(shares, key=lambda share: share[1])[0]].letter if filled >= 4 else " "
        return Segment(letter, style(appearance.palette.text, background))
    if not shares:
        return Segment(" ", style(None, background))
    # A cell has only two colours: the smallest part is left out.
    largest = (
        sorted(sorted(shares, key=lambda share: -share[1])[:2]) if filled == 8 else [max(shares, key=lambda s: s[1])]
    )
    lower = areas[largest[0][0]].colour
    upper = areas[largest[1][0]].colour if len(largest) == 2 else background
    eighths = largest[0][1] if len(largest) == 2 else filled
    if eighths >= 8:
        return Segment(" ", style(None, lower))
    return Segment(LEVELS[eighths - 1], style(lower, upper))
