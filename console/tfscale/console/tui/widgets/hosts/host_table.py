"""Table of hosts, drawn line by line: only the visible rows are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.console.tui.widgets.base_widgets import TaskOpened
from tfscale.console.tui.widgets.hosts.host_columns import HostColumn, cells, columns_for
from tfscale.console.tui.widgets.hosts.host_facts import HostFacts, Hosts

_FAR = 100_000


class HostTable(ScrollView, can_focus=True):
    """Table with one row a host, below fixed headings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "the host above; the mouse selects too", show=False),
        Binding("down,j", "move(1)", "the host below", show=False),
        Binding("pageup", "move(-10)", "ten hosts up", show=False),
        Binding("pagedown", "move(10)", "ten hosts down", show=False),
        Binding("home,g", f"move(-{_FAR})", "the first host", show=False),
        Binding("end,G", f"move({_FAR})", "the last host", show=False),
        Binding("enter", "choose", "the first task on the host", show=False),
    ]

    appearance: reactive[Appearance] = reactive(Appearance())

    class Moved(Message):
        """Move of the cursor to another host."""

    def __init__(self, address: str = "") -> None:
        """Make the table; the cursor begins on the host of this address, else on the first."""
        super().__init__()
        self._hosts = Hosts()
        self._columns: Sequence[HostColumn] = ()
        self._address = address
        self._at = 0
        """Row of the cursor."""
        self._drawn: dict[int, Strip] = {}
        """Visible lines as they were drawn last."""

    @property
    def cursor(self) -> HostFacts | None:
        """Host under the cursor."""
        return self._hosts.facts[self._at] if self._hosts.facts else None

    def show(self, hosts: Hosts) -> None:
        """Show these hosts; the cursor stays on its host. Only lines that have changed are drawn."""
        self._hosts = hosts
        self._at = next((at for at, facts in enumerate(hosts.facts) if facts.address == self._address), 0)
        before, size = self._columns, self.virtual_size
        self._place()
        if size == self.virtual_size and [each.width for each in before] == [each.width for each in self._columns]:
            changed = [y for y, strip in self._drawn.items() if self._line(y) != strip]
            for y in changed:
                self.refresh(Region(0, y, self.size.width, 1))
        else:
            self.refresh()

    def watch_appearance(self) -> None:
        self.refresh()

    def on_resize(self, _event: events.Resize) -> None:
        self._place()
        self._drawn.clear()
        self._show_cursor()
        self.refresh()

    def _place(self) -> None:
        bar = len(self._hosts.facts) + 1 > self.size.height
        self._columns = columns_for(self._hosts, self.size.width - 2 - bar)
        self.virtual_size = Size(self.size.width, len(self._hosts.facts) + 1)

    def render_line(self, y: int) -> Strip:
        strip = self._drawn[y] = self._line(y)
        return strip

    def _line(self, y: int) -> Strip:
        palette, width = self.appearance.palette, self.size.width
        index = self.scroll_offset.y + y - 1
        if y == 0:
            names = "".join(f"{fit(each.name, each.width, right=each.is_right)}  " for each in self._columns)
            strip = Strip([Segment(f"  {names}", style(palette.dim, palette.background))])
            return strip.adjust_cell_length(width, style(None, palette.background))
        if not 0 <= index < len(self._hosts.facts):
            return Strip.blank(width, style(None, palette.background))
        is_cursor = index == self._at
        background = palette.selected if is_cursor else palette.background
        edge = self.appearance.glyphs.cursor if is_cursor else " "
        segments = [Segment(f"{edge} ", style(palette.parts["transfer"], background))]
        for column in self._columns:
            segments += cells(self._hosts.facts[index], self._hosts, column, self.appearance, background)
        return Strip(segments).adjust_cell_length(width, style(None, background))

    def row_as_text(self) -> str:
        """Return the texts of the row under the cursor."""
        facts = self.cursor
        texts = [column.cell(facts, self._hosts)[0] for column in self._columns] if facts else []
        return "  ".join(filter(None, texts))

    def action_move(self, by: int) -> None:
        if self._hosts.facts:
            self._move_to(max(0, min(len(self._hosts.facts) - 1, self._at + by)))

    def _move_to(self, index: int) -> None:
        self._address, self._at = self._hosts.facts[index].address, index
        self._show_cursor()
        self.refresh()
        self.post_message(self.Moved())

    def _show_cursor(self) -> None:
        # The headings cover the first visible line.
        self.scroll_to_region(Region(0, self._at, 1, 2), animate=False, force=True)

    def action_choose(self) -> None:
        if self.cursor is not None and self.cursor.tasks:
            self.post_message(TaskOpened(self.cursor.tasks[0]))

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y and 0 <= index < len(self._hosts.facts):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()
