"""Question before a command: all tasks that it touches, and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from tfscale.console.tui.dialogs.dialog import Choice, QuestionDialog
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.task import Task
from tfscale.core.text import elapsed


@dataclass(frozen=True, slots=True)
class Question:
    """Pending command. `asked` are the tasks that the operator chose, `touched` all tasks that it changes."""

    verb: str
    asked: tuple[Task, ...]
    touched: tuple[Task, ...]
    strategy: str | None
    generation: int | None
    checkpoint_age: float | None = None
    """Seconds since the newest checkpoint; None unknown."""
    keeps: bool = False
    """True where other tasks hold the trained state of the touched ones."""
    running: tuple[Task, ...] = ()
    """Touched tasks that run, by the newest news."""
    without: str = ""
    """Host on which a restart starts no task; empty: every task starts in its place."""


class ConfirmScreen(QuestionDialog[bool]):
    """Yes-or-no dialogue before a command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "do it", show=False),
        Binding("n,escape,q", "answer(False)", "leave it", show=False),
    ]

    def __init__(self, question: Question, appearance: Appearance) -> None:
        choices = [Choice(f"{question.verb.capitalize()} (y)", True, "warning"), Choice("Cancel (esc)", False)]
        super().__init__(wording(question, appearance), choices, appearance, focused=1)
        self.question = question


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
        under = f"under {question.strategy} they" if question.strategy else "no strategy is known, and they may"
        text.append(f"\n\nYou chose {asked}; {under} train in step, so they go together.", style=palette.dim)
    if question.verb == "start" and question.running:
        run = "runs" if len(question.running) == 1 else "run"
        text.append(
            f"\n\n{', '.join(map(str, question.running))} {run} already; a start stops nothing.", style=palette.dim
        )
    elif question.verb != "start":
        price = "Nothing that was trained is lost." if question.keeps else lost(question.checkpoint_age)
        text.append(f"\n\n{price}", style=palette.dim)
    return text


def cost(checkpoint_age: float | None) -> str:
    """Say which checkpoint the training goes back to."""
    age = "unknown" if checkpoint_age is None else elapsed(checkpoint_age)
    return f"Age of the last checkpoint: {age}."


def lost(checkpoint_age: float | None) -> str:
    """Return the words for the loss with the task."""
    return f"{cost(checkpoint_age)} What was trained since is lost."
