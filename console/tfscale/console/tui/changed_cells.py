"""Double buffering, as curses has it: of what Textual draws anew, only cells that differ reach the terminal.

Textual writes each widget that is drawn anew whole: tens of kilobytes a second for a table whose numbers change, which
is what one waits for over ssh.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, repeat
from math import inf
from typing import Any

from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ReturnType
from textual.screen import Screen
from textual.strip import Strip

_GAP = 8
"""Equal cells between two changes that are cheaper to write again than to jump over."""

_SETTLES = 0.5
"""Seconds after a change of the terminal's size in which widgets are written whole, and all of them at its end."""

Cell = tuple[str, Style | None]
"""Character with its style; of a wide one the second cell has no character."""


class SparingApp(App[ReturnType]):
    """Application that writes only cells that differ from those of before, but all cells of a new layout."""

    _painted: Painted | None = None
    _resized = -inf

    def on_resize(self) -> None:
        """Write all anew: a terminal that became smaller in between, however shortly, has lost what it showed."""
        self._resized = time.monotonic()
        self.call_after_refresh(self.screen.refresh)
        self.set_timer(_SETTLES, self.screen.refresh)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        # These names are Textual's own: where a later version has others, it writes whole widgets as before.
        with suppress(ImportError, AttributeError):
            self._spare(renderable)
        super()._display(screen, renderable)

    def _spare(self, renderable: RenderableType | None) -> None:
        from textual._compositor import ChopsUpdate, LayoutUpdate

        if time.monotonic() < self._resized + _SETTLES:
            self._painted = None
            return
        self._painted = painted = self._painted or Painted()
        if isinstance(renderable, ChopsUpdate):
            vars(renderable)["render_segments"] = partial(painted.write_changes, renderable.spans, renderable.chops)
        elif isinstance(renderable, LayoutUpdate):
            write_all = renderable.render_segments
            vars(renderable)["render_segments"] = partial(painted.write_all, renderable.strips, write_all)
        elif renderable is not None:
            self._painted = None


class Painted:
    """Cells that the terminal shows, as far as they are known."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[int, Cell]] = {}

    def write_all(self, lines: Iterable[Iterable[Strip]], write: Callable[[Console], str], console: Console) -> str:
        """Return what writes a new layout, and remember its lines."""
        self._lines = {
            y: dict(enumerate(cell for strip in line for cell in _cells(strip))) for y, line in enumerate(lines)
        }
        return write(console)

    def write_changes(
        self, spans: Sequence[tuple[int, int, int]], lines: Sequence[Mapping[int, Strip | None]], console: Console
    ) -> str:
        """Return what writes the changes within spans of a line, from one cell to another; of each line its strips."""
        written: list[str] = []
        for y, first, until in spans:
            for x, strip in lines[y].items():
                if strip is not None and x < until and x + strip.cell_length > first:
                    for at, piece in self._changes(y, x, strip):
                        written += Control.move_to(at, y).segment.text, piece.render(console)
        return "".join(written)

    def _changes(self, y: int, x: int, strip: Strip) -> Iterator[tuple[int, Strip]]:
        """Remember a strip, and yield the pieces of it that differ from what was there, each with its first cell."""
        line, cells = self._lines.setdefault(y, {}), _cells(strip)
        known = line.get
        different = [at for at, cell in enumerate(cells) if known(x + at) != cell]
        line.update(enumerate(cells, x))
        begin = end = -1
        for at in different:
            if begin >= 0 and at - end > _GAP:
                yield x + begin, _strip(cells, begin, end)
                begin = -1
            begin, end = at if begin < 0 else begin, at + 1
        if begin >= 0:
            yield x + begin, _strip(cells, begin, end)


def _cells(strip: Strip) -> list[Cell]:
    cells: list[Cell] = []
    for segment in strip:
        if segment.cell_length == len(segment.text):
            cells += zip(segment.text, repeat(segment.style))
        else:
            for sign in segment.text:
                width = Segment(sign).cell_length
                # A sign without a width of its own belongs to the one before.
                cells += [(sign, segment.style), ("", segment.style)][:width] if width or not cells else []
                if not width and cells:
                    cells[-1] = (cells[-1][0] + sign, segment.style)
    return cells


def _strip(cells: list[Cell], begin: int, end: int) -> Strip:
    """Return these cells as a strip, with wide signs whole."""
    while begin and not cells[begin][0]:
        begin -= 1
    while end < len(cells) and not cells[end][0]:
        end += 1
    runs = groupby(cells[begin:end], key=lambda cell: cell[1])
    return Strip([Segment("".join(sign for sign, _ in run), style) for style, run in runs])
