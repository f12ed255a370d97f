"""Question on leaving a run that this console has started: does the training go on?"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static
from tfscale.console.tui.widgets.appearance.theme import Appearance


class LeaveScreen(ModalScreen[bool | None]):
    """Dialogue that returns whether the training goes on, or None to stay."""

    DEFAULT_CSS = """
    LeaveScreen { align: center middle; background: $background 60%; }
    LeaveScreen > Vertical { width: 66; max-width: 90%; height: auto; background: $panel; border: round $warning;
        padding: 1 2; }
    LeaveScreen.ascii > Vertical { border: ascii $warning; }
    LeaveScreen Static { height: auto; }
    LeaveScreen Horizontal { height: 1; margin: 1 0 0 0; align-horizontal: right; }
    LeaveScreen Button { margin: 0 0 0 2; min-width: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "answer(True)", "the training goes on", show=False),
        Binding("s", "answer(False)", "stop it", show=False),
        Binding("escape,q", "dismiss", "stay here", show=False),
        Binding("left", "app.focus_previous", "the button before", show=False),
        Binding("right", "app.focus_next", "the button after", show=False),
    ]

    def __init__(self, run: str, appearance: Appearance) -> None:
        super().__init__(classes="ascii" if appearance.glyphs.border == "ascii" else "")
        self._run = run
        self._look = appearance

    def compose(self) -> ComposeResult:
        text = Text("Shall the training go on without this console?\n\n", style="bold")
        text.append(f"{self._run} ", style=f"bold {self._look.severity('warning')}")
        text.append(
            "runs on this machine. While it does, tfscale-console shows it again.", style=self._look.palette.dim
        )
        with Vertical():
            yield Static(text)
            with Horizontal():
                yield Button("Go on (g)", id="on", variant="primary", compact=True)
                yield Button("Stop it (s)", id="stop", variant="warning", compact=True)
                yield Button("Stay (esc)", id="stay", compact=True)

    def on_mount(self) -> None:
        self.query_one("#on", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss({"on": True, "stop": False}.get(event.button.id or ""))

    def action_answer(self, goes_on: bool) -> None:
        self.dismiss(goes_on)
