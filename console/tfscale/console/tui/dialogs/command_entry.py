"""Command line: a command is typed by its name, with those that begin so above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static
from tfscale.console.tui.dialogs.dialog import Dialog
from tfscale.console.tui.screens.command_names import NamedCommand, found
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import Appearance

_MOST = 8
"""Commands that are proposed at once."""
_AROUND = 5
"""Lines of the dialogue beside its proposals."""
_NAME = 18
"""Cells of a command's name."""


class CommandEntry(Dialog[NamedCommand | str | None]):
    """Line that returns the command, what was typed where it is no command, or None if cancelled."""

    DEFAULT_CSS = """
    CommandEntry { align: center bottom; }
    CommandEntry > .frame { width: 100%; max-width: 100%; padding: 0 1; }
    CommandEntry Static { height: auto; }
    CommandEntry Input { height: 1; border: none; padding: 0; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "leave it", show=False),
        Binding("tab", "complete", "complete the name under the cursor", show=False),
        Binding("up", "move(-1)", "the command above", show=False),
        Binding("down", "move(1)", "the command below", show=False),
    ]

    def __init__(self, commands: Sequence[NamedCommand], appearance: Appearance, hint: str = "") -> None:
        super().__init__(appearance)
        self._commands = commands
        self._proposed: Sequence[NamedCommand] = commands
        self._at = 0
        self._list = Static(markup=False)
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "command"
            frame.border_subtitle = "tab completes  enter does it  esc leaves"
            yield self._list
            placeholder = "worker 50, sort lag, hosts, q"
            yield Input(placeholder=f"{placeholder}; {self._hint}" if self._hint else placeholder, compact=True)

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._proposed, self._at = found(self._commands, event.value), 0
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        typed = event.value.strip()
        # A key may come before the list is drawn anew.
        proposed = found(self._commands, typed)
        if not typed and not self._at:
            self.dismiss(None)
        else:
            self.dismiss(proposed[min(self._at, len(proposed) - 1)] if proposed else typed)

    def action_move(self, by: int) -> None:
        self._at = max(0, min(len(self._proposed) - 1, self._at + by))
        self._draw()

    def action_complete(self) -> None:
        if self._proposed:
            line = self.query_one(Input)
            line.value = f"{self._proposed[self._at].name} "
            line.action_end()

    def _draw(self) -> None:
        most = max(1, min(_MOST, self.app.size.height - _AROUND))
        first = max(0, self._at - most + 1)
        palette, width = self._look.palette, max(1, self.app.size.width - 4)
        text = Text(no_wrap=True, overflow="crop")
        for place, command in enumerate(self._proposed[first : first + most], first):
            background = f" on {palette.selected}" if place == self._at else ""
            edge = self._look.glyphs.cursor if place == self._at else " "
            name = f"{edge} {command.name:<{_NAME}} "
            text.append(name[:width], style=f"bold {palette.text}{background}")
            about = fit(command.about, max(0, width - len(name)), right=False) if width > len(name) else ""
            text.append(self._look.spell(about) + "\n", style=palette.dim + background)
        if not self._proposed:
            text.append("no such command", style=palette.dim)
        text.rstrip()
        self._list.update(text)
