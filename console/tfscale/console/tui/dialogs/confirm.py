"""Question before a command: exactly which tasks it concerns, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.task import Task
from tfscale.core.text import elapsed


@dataclass(frozen=True, slots=True)
class Question:
    """Pending command. `asked` are the tasks that the operator chose, `touched` all tasks that it concerns."""

    verb: str
    asked: tuple[Task, ...]
    touched: tuple[Task, ...]
    strategy: str | None
    generation: int | None
    checkpoint_age: float | None = None
    """Seconds since the newest checkpoint; None unknown."""
    keeps: bool = False
    """True where other tasks hold the trained state of the touched ones."""
    without: str = ""
    """Host on which a restart starts no task; empty: each starts where it is."""


class ConfirmScreen(ModalScreen[bool]):
    """Yes-or-no dialogue; returns the answer."""

    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; background: $background 60%; }
    ConfirmScreen > Vertical {
        width: 66; max-width: 90%; height: auto; max-height: 90%;
        background: $panel; border: round $warning; padding: 1 2;
    }
    ConfirmScreen.ascii > Vertical { border: ascii $warning; }
    ConfirmScreen VerticalScroll { height: auto; max-height: 14; }
    ConfirmScreen Static { height: auto; }
    ConfirmScreen Horizontal { height: 1; margin: 1 0 0 0; align-horizontal: right; }
    ConfirmScreen Button { margin: 0 0 0 2; min-width: 14; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "do it", show=False),
        Binding("n,escape,q", "answer(False)", "leave it", show=False),
        Binding("left", "app.focus_previous", "the button before", show=False),
        Binding("right", "app.focus_next", "the button after", show=False),
    ]

    def __init__(self, question: Question, appearance: Appearance) -> None:
        super().__init__(classes="ascii" if appearance.glyphs.border == "ascii" else "")
        self.question = question
        self._look = appearance

    def compose(self) -> ComposeResult:
        with Vertical():
            with VerticalScroll(can_focus=False):
                yield Static(wording(self.question, self._look))
            with Horizontal():
                yield Button(f"{self.question.verb.capitalize()} (y)", id="yes", variant="warning", compact=True)
                yield Button("Cancel (esc)", id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


def wording(question: Question, appearance: Appearance) -> Text:
    """Return the question, with every task by name."""
    palette = appearance.palette
    count = len(question.touched)
    left_out = f" without {question.without}" if question.without else ""
    text = Text(f"{question.verb.capitalize()} {count} task{'s' if count != 1 else ''}{left_out}?\n\n", style="bold")
    text.append(", ".join(map(str, question.touched)), style=f"bold {appearance.severity('warning')}")
    others = len(set(question.touched) - set(question.asked))
    if question.without:
        text.append(
            f"\n\nWhat runs on {question.without} starts on a spare, else on the host of the last worker, where fewer "
            "workers are allowed. All tasks that train are told of it by a restart.",
            style=palette.dim,
        )
    elif others:
        asked = ", ".join(map(str, question.asked))
        reason = f"under {question.strategy} they train in step, so they go together"
        text.append(f"\n\nYou chose {asked}; {reason}.", style=palette.dim)
    if question.verb != "start":
        price = "Nothing that was trained is lost." if question.keeps else lost(question.checkpoint_age)
        text.append(f"\n\n{price}", style=palette.dim)
    return text


def cost(checkpoint_age: float | None) -> str:
    """Say which checkpoint the training goes back to."""
    age = "unknown" if checkpoint_age is None else elapsed(checkpoint_age)
    return f"Age of the last checkpoint: {age}."


def lost(checkpoint_age: float | None) -> str:
    """Say what is lost with the task."""
    return f"{cost(checkpoint_age)} What was trained since is lost."
