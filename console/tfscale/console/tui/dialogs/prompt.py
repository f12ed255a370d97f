"""Dialogue with one line of input."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static
from tfscale.console.tui.dialogs.dialog import Dialog
from tfscale.console.tui.widgets.appearance.theme import Appearance


class PromptScreen(Dialog[str | None]):
    """Input line; returns the text, or None if cancelled."""

    DEFAULT_CSS = """
    PromptScreen > .frame { width: 72; }
    PromptScreen Input { height: 1; border: none; padding: 0; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "leave it", show=False)]

    def __init__(self, question: str, appearance: Appearance, value: str = "") -> None:
        super().__init__(appearance)
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame"):
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)
