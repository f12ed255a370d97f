"""Question on leaving a run that this console has started: does the training go on?"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from tfscale.console.tui.dialogs.dialog import Choice, QuestionDialog
from tfscale.console.tui.widgets.appearance.theme import Appearance


class LeaveScreen(QuestionDialog[bool | None]):
    """Dialogue that returns whether the training goes on, or None to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "answer(True)", "the training goes on", show=False),
        Binding("s", "answer(False)", "stop it", show=False),
        Binding("escape,q", "dismiss", "stay here", show=False),
    ]

    def __init__(self, run: str, appearance: Appearance) -> None:
        text = Text("Shall the training go on without this console?\n\n", style="bold")
        text.append(f"{run} ", style=f"bold {appearance.severity('warning')}")
        text.append(
            "runs on this machine. While it does, tfscale-console shows it again.", style=appearance.palette.dim
        )
        choices: list[Choice[bool | None]] = [
            Choice("Go on (g)", True, "primary"),
            Choice("Stop it (s)", False, "warning"),
            Choice("Stay (esc)", None),
        ]
        super().__init__(text, choices, appearance)
