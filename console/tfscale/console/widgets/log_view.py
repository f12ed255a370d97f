"""A task's log: follows its end until one scrolls away from it or pauses."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.widgets.look import Look

LINES_KEPT = 10_000
_LONGEST = 2_000


class LogView(ScrollView, can_focus=True):
    """Lines of text, of which only the visible ones are drawn; the oldest go beyond `LINES_KEPT`."""

    look: reactive[Look] = reactive(Look())
    is_following: reactive[bool] = reactive(True)

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    @property
    def lines(self) -> Sequence[str]:
        return self._lines

    def extend(self, lines: Sequence[str]) -> None:
        """Add lines at the end."""
        self._lines.extend(line.expandtabs()[:_LONGEST] for line in lines)
        self.virtual_size = Size(self.size.width, len(self._lines))
        if self.is_following:
            self.scroll_end(animate=False, force=True)
        self.refresh()

    def watch_is_following(self, is_following: bool) -> None:
        if is_following:
            self.scroll_end(animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value:
            self.is_following = False
        elif new_value >= self.max_scroll_y:
            self.is_following = True

    def render_line(self, y: int) -> Strip:
        style = Style(color=self.look.palette.text, bgcolor=self.look.palette.background)
        index = self.scroll_offset.y + y
        text = self._lines[index] if 0 <= index < len(self._lines) else ""
        return Strip([Segment(_printable(text), style)]).adjust_cell_length(self.size.width, style)


def _printable(text: str) -> str:
    """Without what would move a terminal's cursor; of a line redrawn in place (a progress bar), its last state."""
    newest = text.rstrip("\r").rpartition("\r")[2]
    return "".join(each if each.isprintable() else "" for each in _without_escapes(newest))


def _without_escapes(text: str) -> str:
    from rich.text import Text

    return Text.from_ansi(text).plain if "\x1b" in text else text
