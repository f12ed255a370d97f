"""Canvas of dots: curves and bands in the eight dots of a braille cell, or in one letter a cell without Unicode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from rich.text import Text
from tfscale.console.tui.widgets.appearance.theme import Appearance

_BITS = np.array(((0x40, 0x80), (0x04, 0x20), (0x02, 0x10), (0x01, 0x08)))
"""Bits of the dots of a braille cell, by row from below and by column."""
_BRAILLE = 0x2800


@dataclass(frozen=True, slots=True)
class Mark:
    """Look of one kind of dot: its colour, the letter without braille, and a sign that is drawn instead of dots."""

    colour: str
    letter: str
    sign: str = ""
    takes_lower: bool = False
    """True where dots of lower kinds in its cell are drawn as its own."""


Places = int | slice | NDArray[np.int64]
"""Columns or rows of dots."""


class DotCanvas:
    """Canvas of `width` x `height` cells. A cell shows the dots of a single kind: the highest one in it."""

    def __init__(self, width: int, height: int, appearance: Appearance) -> None:
        is_fine = bool(appearance.glyphs.eighths) and not appearance.letters
        self.across, self.down = (2, 4) if is_fine else (1, 1)
        """Dots of a cell beside and above each other."""
        self.columns, self.rows = width * self.across, height * self.down
        self._kinds = np.zeros((self.rows, self.columns), np.int8)

    def put(self, kind: int, columns: Places, rows: Places) -> None:
        """Put dots of a kind, from 1 on, at these columns and rows, counted from below; higher kinds stay."""
        self._kinds[rows, columns] = np.maximum(self._kinds[rows, columns], kind)

    def lines(self, marks: Sequence[Mark], shaded: tuple[int, str] | None = None) -> list[Text]:
        """Return the lines from above; `marks` are the looks of the kinds, `shaded` is a column with its colour."""
        cells = self._kinds.reshape(self.rows // self.down, self.down, self.columns // self.across, self.across)
        kinds = cells.max(axis=(1, 3))
        takes = np.array([False, *(mark.takes_lower for mark in marks)])[kinds][:, None, :, None]
        is_drawn = (cells == kinds[:, None, :, None]) | takes & (cells > 0)
        bits = np.where(is_drawn, _BITS[: self.down, None, : self.across], 0).sum(axis=(1, 3))
        signs = np.array([32, *(ord(mark.sign or (mark.letter if self.down == 1 else " ")) for mark in marks)])[kinds]
        is_dotted = np.array([False, *(self.down > 1 and not mark.sign for mark in marks)])[kinds]
        signs = np.where(is_dotted, _BRAILLE + bits, signs)
        # An empty cell in the colour of the first kind makes fewer pieces.
        looks = 2 * np.maximum(kinds - 1, 0).astype(np.int64)
        if shaded is not None:
            looks[:, shaded[0]] += 1
        styles = [Style(color=mark.colour, bgcolor=back) for mark in marks for back in (None, shaded and shaded[1])]
        return [_line(*row, styles) for row in zip(signs[::-1], looks[::-1], strict=True)]


def _line(signs: NDArray[np.int64], looks: NDArray[np.int64], styles: Sequence[Style]) -> Text:
    edges = [0, *(np.flatnonzero(np.diff(looks)) + 1).tolist(), len(looks)]
    text = "".join(map(chr, signs.tolist()))
    line = Text(no_wrap=True)
    for begin, end in pairwise(edges):
        line.append(text[begin:end], style=styles[looks[begin]])
    return line
