"""Question before a command: what it is about, and its price, in six lines; the names of all tasks on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from tfscale.console.engine.checkpoint_age import Untrained
from tfscale.console.tui.dialogs.dialog import Choice, QuestionDialog
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.task import Task
from tfscale.core.text import elapsed, listing, plural

_MOST_NAMED = 3
"""Tasks up to which the question names each one."""


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
    untrained: Untrained | None = None
    """Training since the newest checkpoint; None unknown."""
    keeps: bool = False
    """True where other tasks hold the trained state of the touched ones."""
    running: tuple[Task, ...] = ()
    """Touched tasks that run, by the newest news."""
    without: str = ""
    """Host on which a restart starts no task; empty: every task starts in its place."""
    total: int = 0
    """Number of all tasks of the cluster."""


class ConfirmScreen(QuestionDialog[bool]):
    """Yes-or-no dialogue before a command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "do it", show=False),
        Binding("n,escape,q", "answer(False)", "leave it", show=False),
        Binding("t", "names", "the names of all tasks; again: the question", show=False),
    ]

    def __init__(self, question: Question, appearance: Appearance) -> None:
        choices = [Choice("No (n)", False), Choice(f"{question.verb.capitalize()} (y)", True, "warning")]
        super().__init__(wording(question, appearance), choices, appearance, hint="t  names of the tasks")
        self.question = question
        self._shows_names = False

    def action_names(self) -> None:
        self._shows_names = not self._shows_names
        names = Text(", ".join(map(str, self.question.touched)), style=self._look.palette.text)
        self.ask(names if self._shows_names else wording(self.question, self._look))


def wording(question: Question, appearance: Appearance) -> Text:
    """Return the question, the tasks that it is about, and its price."""
    palette = appearance.palette
    left_out = f" without {question.without}" if question.without else ""
    text = Text()
    text.append(f"{question.verb.capitalize()} {_tasks(question)}{left_out}?\n", style="bold")
    for sentence in filter(None, (_scope(question), _price(question))):
        text.append(f"\n{sentence}", style=palette.text)
    return text


def _tasks(question: Question) -> str:
    """Return the touched tasks in a few words: `worker:1`, `all 64 workers`, `5 of 66 tasks`."""
    touched = question.touched
    if len(touched) <= _MOST_NAMED:
        return listing([*map(str, touched)])
    roles = {task.role for task in touched}
    noun = str(next(iter(roles))) if len(roles) == 1 else "task"
    if len(touched) == question.total:
        return f"all {plural(len(touched), noun)}"
    return f"{len(touched)} of {plural(question.total, 'task')}"


def _scope(question: Question) -> str:
    """Return why the command is about these tasks; empty where it is about the chosen ones alone."""
    if question.without:
        return (
            f"What runs on {question.without} starts on a spare, else on the last worker's host, where fewer workers "
            "are allowed; all others restart."
        )
    if question.verb == "start" and question.running:
        run = "runs" if len(question.running) == 1 else "run"
        return f"{listing([*map(str, question.running)])} {run} already; a start stops nothing."
    if not set(question.touched) - set(question.asked):
        return ""
    together = "all train in lock step" if question.strategy else "no strategy is known, all may train in lock step"
    return f"You selected {listing([*map(str, question.asked)])}; {together}."


def _price(question: Question) -> str:
    """Return what of the training is lost or repeated; empty for a start."""
    if question.verb == "start":
        return ""
    if question.keeps:
        return "Nothing that was trained is lost."
    if question.checkpoint_age is None:
        return "No checkpoint is known: all that was trained may be lost."
    last = f"Last checkpoint {elapsed(question.checkpoint_age)} ago"
    what = "repeated" if question.verb == "restart" else "lost"
    if (since := question.untrained) is None:
        return f"{last}: what was trained since is {what}."
    if not since.steps:
        return f"{last}: nothing was trained since."
    step = "" if since.step is None else f" (step {since.step:,})"
    return f"{last}{step}: about {plural(since.steps, 'step')}, {elapsed(since.seconds)}, are {what}."


def cost(checkpoint_age: float | None) -> str:
    """Say which checkpoint the training goes back to."""
    age = "unknown" if checkpoint_age is None else elapsed(checkpoint_age)
    return f"Age of the last checkpoint: {age}."
