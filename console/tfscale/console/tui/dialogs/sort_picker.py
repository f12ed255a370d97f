"""Dialogue that chooses the order of the task table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList
from textual.widgets.option_list import Option
from tfscale.console.tui.dialogs.dialog import Dialog
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.table.task_columns import Column

_ABOUT = 24
"""Cells of a column's description."""


class SortPicker(Dialog[str | None]):
    """List of the columns by which rows can be sorted; returns the name of one, or None to leave the order."""

    DEFAULT_CSS = """
    SortPicker { align: right middle; background: $background 0%; }
    SortPicker > .frame { width: 44; padding: 0 1; }
    SortPicker OptionList { height: auto; max-height: 100%; border: none; padding: 0; background: $panel; }
    SortPicker OptionList:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,j", "move(1)", "the next order", show=False),
        Binding("k", "move(-1)", "the order before", show=False),
        Binding("escape,q", "dismiss", "back", show=False),
    ]

    def __init__(self, columns: Sequence[Column], sort: str, appearance: Appearance) -> None:
        """Open the list of `columns`, with the cursor on the order after `sort`, which is marked."""
        super().__init__(appearance)
        palette, mark = appearance.palette, appearance.glyphs.mark
        names = [column.name for column in columns]
        options = [
            Option(
                Text.assemble(
                    (f"{mark if column.name == sort else ' '} ", palette.severities["good"]),
                    (f"{column.name:<14}", f"bold {palette.text}"),
                    (appearance.spell(fit(column.description, _ABOUT, right=False)), palette.dim),
                ),
                id=column.name,
            )
            for column in columns
        ]
        self._list = OptionList(*options, compact=True)
        self._first = (names.index(sort) + 1) % len(names) if sort in names else 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "sort by"
            frame.border_subtitle = "s next  enter sorts  esc back"
            yield self._list

    def on_mount(self) -> None:
        self._list.highlighted = self._first

    def action_move(self, by: int) -> None:
        (self._list.action_cursor_down if by > 0 else self._list.action_cursor_up)()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
