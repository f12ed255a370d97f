"""Stack page: the Python stacks of a task's threads at the time of the request, or those of all tasks, folded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static
from tfscale.console.transport.commands import Stack
from tfscale.console.tui.dialogs.dialog import Page
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance, Palette
from tfscale.core.cluster.task import Task
from tfscale.core.failure.stacks import StackFrame, equal_stacks, frames_of
from tfscale.core.text import clock, listing, plural

FetchStacks = Callable[["StackScreen"], Awaitable[None]]
"""Asks all tasks for their stacks, and shows them on the page as they come."""


class StackScreen(Page):
    """Page that opens at once and is filled when agents answer."""

    DEFAULT_CSS = "StackScreen > .frame { width: 95%; height: 95%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,b,enter", "dismiss", "back", show=False),
        Binding("a", "all", "the stacks of all tasks, equal ones together", show=False),
    ]

    def __init__(self, task: Task, appearance: Appearance, fetch_all: FetchStacks) -> None:
        super().__init__(appearance)
        self._shown_task, self._fetch_all = task, fetch_all
        self._content = Static(Text(f"asking {task} for its stacks", style=appearance.palette.dim))

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="frame") as frame:
            frame.border_subtitle = "a all tasks   esc back"
            yield self._content

    def show(self, stacks: Stack | str) -> None:
        """Show the stacks, or why there are none."""
        palette = self._look.palette
        if isinstance(stacks, str):
            self._content.update(Text(stacks, style=palette.text))
            return
        text = Text(f"{self._shown_task}, process {stacks.pid}, at {clock(stacks.at)}\n\n", style=palette.dim)
        self._content.update(spelled(text.append_text(drawn(stacks.text, palette)), self._look))

    def show_all(self, stacks: Mapping[Task, str], asked: int, at: float) -> None:
        """Show the stacks that have come from `asked` tasks, or why a task gave none; equal ones once."""
        palette = self._look.palette
        groups = equal_stacks(stacks)
        answers = f"{len(stacks)} of {plural(asked, 'task')} answered" if len(stacks) < asked else plural(asked, "task")
        text = Text(f"{answers}, {plural(len(groups), 'different stack')}, at {clock(at)}\n", style=palette.dim)
        for stack, tasks in groups:
            names = listing([str(task) for task in sorted(tasks)], 12)
            text.append(f"\n{plural(len(tasks), 'task')}: {names}\n", style=f"bold {palette.parts['transfer']}")
            text.append_text(drawn(stack, palette))
        self._content.update(spelled(text, self._look))

    async def action_all(self) -> None:
        self.run_worker(self._fetch_all(self), exclusive=True)


def drawn(stacks: str, palette: Palette) -> Text:
    """Return the stacks with short paths, the program's own calls bright; tfscale's own calls only as their number."""
    text = Text()
    for block in stacks.strip().split("\n\n"):
        frames = frames_of(block)
        if not frames:  # words for why there is none
            text.append(f"{block}\n", style=palette.text)
            continue
        text.append(f"{block.partition(chr(10))[0]}\n", style=f"bold {palette.text}")
        shown = [frame for frame in frames if not frame.is_of_tfscale]
        _append(text, shown, palette)
        if hidden := len(frames) - len(shown):
            text.append(f"  {plural(hidden, 'call')} of tfscale left out\n", style=palette.faint)
        text.append("\n")
    text.rstrip()
    return text.append("\n")


def _append(text: Text, frames: Sequence[StackFrame], palette: Palette) -> None:
    for frame in frames:
        look = f"bold {palette.severities['good']}" if frame.is_programs else palette.dim
        text.append(f"  {frame.short_file}:{frame.line} {frame.function}\n", style=look)
