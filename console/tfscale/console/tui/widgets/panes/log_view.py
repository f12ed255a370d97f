"""View of a task's log: follows the end until the operator scrolls or pauses; wraps lines and searches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.tui.widgets.appearance.theme import Appearance

LINES_KEPT = 10_000
_SLACK = 1_000
"""Lines beyond the limit before old ones are dropped: dropping one at a time would move all others each time."""
_LONGEST = 2_000
"""Characters of a line that are kept: a line without an end must not fill the memory."""


class LogView(ScrollView, can_focus=True):
    """Lines of text; only visible lines are drawn, and the oldest beyond `LINES_KEPT` are dropped."""

    appearance: reactive[Appearance] = reactive(Appearance())
    is_following: reactive[bool] = reactive(True)
    is_wrapped: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._starts: list[int] = [0]
        """Row at which each line begins, and the row after the last line."""
        self._pattern = ""
        self._matches: list[int] = []
        """Numbers of the lines that match the search."""
        self._match: int | None = None
        """Index of the current match in `_matches`."""

    @property
    def lines(self) -> Sequence[str]:
        return self._lines

    @property
    def match_position(self) -> tuple[int, int] | None:
        """Number of the current match from 1, and of all matches; None without a search."""
        if not self._pattern:
            return None
        return (0 if self._match is None else bisect_left(self._matches, self._match) + 1), len(self._matches)

    def extend(self, lines: Sequence[str]) -> None:
        """Add lines at the end."""
        first = len(self._lines)
        self._lines.extend(printable_line(line) for line in lines)
        if len(self._lines) > LINES_KEPT + _SLACK:
            self._drop(len(self._lines) - LINES_KEPT)
        else:
            self._place(first)
            self._matches += self._holding(first)
        if self.is_following:
            self.scroll_end(animate=False, force=True)
        self.refresh()

    def search(self, pattern: str) -> None:
        """Go to the newest match at or above the end of the view, whatever the case; an empty text ends the search."""
        self._pattern = pattern.lower()
        self._matches = list(self._holding(0)) if pattern else []
        bottom = self._line_at(self.scroll_offset.y + self.size.height - 1)
        above = [line for line in self._matches if line <= bottom]
        self._match = above[-1] if above else next(iter(self._matches), None)
        self._show_match()

    def next_match(self, by: int) -> None:
        """Go to the next match below (1) or above (-1), and around at the end."""
        if not self._matches:
            return
        here = -1 if self._match is None else bisect_left(self._matches, self._match)
        self._match = self._matches[(here + by) % len(self._matches)]
        self._show_match()

    def watch_is_following(self, is_following: bool) -> None:
        if is_following:
            self.scroll_end(animate=False, force=True)

    def watch_is_wrapped(self) -> None:
        top = self._line_at(self.scroll_offset.y)
        self._place(0)
        if self.is_following:
            self.scroll_end(animate=False, force=True)
        else:
            self.scroll_to(y=self._starts[top], animate=False, force=True)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # A view that grows moves up by itself, and is at the end still.
        if new_value >= self.max_scroll_y:
            self.is_following = True
        elif new_value < old_value:
            self.is_following = False

    def on_resize(self, _event: events.Resize) -> None:
        if self.is_wrapped:
            self._place(0)
        if self.is_following:
            self.scroll_end(animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        palette = self.appearance.palette
        plain = Style(color=palette.text, bgcolor=palette.background)
        row = self.scroll_offset.y + y
        if row >= self._starts[-1]:
            return Strip.blank(self.size.width, plain)
        line = self._line_at(row)
        text = self._lines[line]
        if self.is_wrapped:
            piece = (row - self._starts[line]) * self._room
            text = text[piece : piece + self._room]
        is_match = Style(bgcolor=palette.selected, bold=True, reverse=line == self._match)
        segments = _highlighted(text, self._pattern, plain, plain + is_match)
        return Strip(segments).adjust_cell_length(self.size.width, plain)

    @property
    def _room(self) -> int:
        """Cells of a wrapped line. The scrollbar covers the last cell."""
        return max(1, self.size.width - 1)

    def _line_at(self, row: int) -> int:
        return max(0, min(bisect_left(self._starts, row + 1) - 1, len(self._lines) - 1))

    def _place(self, first: int) -> None:
        """Compute the rows of the lines from `first` on."""
        at = self._starts[first]
        del self._starts[first + 1 :]
        for line in self._lines[first:]:
            at += max(1, -(-len(line) // self._room)) if self.is_wrapped else 1
            self._starts.append(at)
        self.virtual_size = Size(self.size.width, at)

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self._starts = [0]
        self._place(0)
        self._matches = list(self._holding(0)) if self._pattern else []
        self._match = None if self._match is None or self._match < count else self._match - count

    def _holding(self, first: int) -> Iterator[int]:
        if self._pattern:
            yield from (at for at in range(first, len(self._lines)) if self._pattern in self._lines[at].lower())

    def _show_match(self) -> None:
        if self._match is not None:
            self.is_following = False
            row = self._starts[self._match] - self.size.height // 2
            self.scroll_to(y=max(0, row), animate=False, force=True)
        self.refresh()


def _highlighted(text: str, pattern: str, plain: Style, match: Style) -> list[Segment]:
    segments, at, lower = [], 0, text.lower()
    while pattern and (place := lower.find(pattern, at)) >= 0:
        segments += [Segment(text[at:place], plain), Segment(text[place : place + len(pattern)], match)]
        at = place + len(pattern)
    return [*segments, Segment(text[at:], plain)]


def printable_line(text: str) -> str:
    """Remove control characters; of a line redrawn in place (a progress bar), keep the last state."""
    newest = text.expandtabs()[:_LONGEST].rstrip("\r").rpartition("\r")[2]
    return "".join(char if char.isprintable() else "" for char in _without_escapes(newest))


def _without_escapes(text: str) -> str:
    from rich.text import Text

    return Text.from_ansi(text).plain if "\x1b" in text else text
