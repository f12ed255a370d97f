"""Dialogue that chooses the columns of the task table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.widgets import Static
from tfscale.console.tui.dialogs.dialog import Dialog
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.table.task_columns import USUAL, Column

_LONGEST_NAME = 40
"""Characters of a column's name; a log of Keras may have a longer one."""


class PickerScreen(Dialog[None]):
    """List of all columns; each choice shows at once in the table behind it."""

    DEFAULT_CSS = """
    PickerScreen { align: right middle; background: $background 0%; }
    PickerScreen > .frame { scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "the column above", show=False),
        Binding("down,j", "move(1)", "the column below", show=False),
        Binding("space", "choose", "show or hide it; the mouse does too", show=False),
        Binding("d", "usual", "the usual columns", show=False),
        Binding("escape,q,c,enter", "dismiss", "back", show=False),
    ]

    def __init__(
        self,
        columns: Sequence[Column],
        chosen: Collection[str],
        placed: Collection[str],
        appearance: Appearance,
        pick: Callable[[tuple[str, ...]], Collection[str]],
    ) -> None:
        """Open the list of `columns`. `pick` shows the columns of its argument, and returns the columns that fit."""
        super().__init__(appearance)
        self._columns = columns
        self._chosen = set(chosen)
        self._placed = placed
        self._pick = pick
        self._at = 0

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="frame") as scroll:
            scroll.can_focus = False
            yield Static(self._text(), id="columns")

    def _text(self) -> Text:
        palette, glyphs = self._look.palette, self._look.glyphs
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append("Columns", style=f"bold {palette.text}")
        text.append("   space shows or hides, d the usual, esc back\n", style=palette.dim)
        for index, column in enumerate(self._columns):
            is_cursor, is_chosen = index == self._at, column.name in self._chosen or column.name == "task"
            background = f" on {palette.selected}" if is_cursor else ""
            text.append(f"{glyphs.cursor if is_cursor else ' '} ", style=palette.parts["transfer"] + background)
            text.append(f"{glyphs.mark if is_chosen else ' '} ", style=palette.severities["good"] + background)
            name = f"{column.name[:_LONGEST_NAME]:<14}"
            text.append(name, style=f"bold {palette.text}{background}")
            room = "" if not is_chosen or column.name in self._placed else "no room: "
            about = f"{room}{column.description}" if len(name) == 14 else f" {room}{column.description}"
            width = 55 - len(name)
            text.append(about.ljust(width)[:width] + "\n", style=palette.dim + background)
        text.rstrip()
        return text

    def action_move(self, by: int) -> None:
        self._at = max(0, min(len(self._columns) - 1, self._at + by))
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            # A key may come before the dialog is there, or when it has gone already.
            return
        self.query_one("#columns", Static).update(self._text())
        self.query_one(VerticalScroll).scroll_to_region(Region(0, self._at, 1, 2), animate=False, force=True)

    def action_choose(self) -> None:
        self._chosen ^= {self._columns[self._at].name}
        self._apply()

    def action_usual(self) -> None:
        self._chosen = set(USUAL)
        self._apply()

    def _apply(self) -> None:
        self._placed = self._pick(tuple(column.name for column in self._columns if column.name in self._chosen))
        self._draw()

    def on_click(self, event: events.Click) -> None:
        static = self.query_one("#columns", Static)
        line = event.screen_y - static.region.y - 1
        if static.region.contains(event.screen_x, event.screen_y) and 0 <= line < len(self._columns):
            self._at = line
            self.action_choose()
