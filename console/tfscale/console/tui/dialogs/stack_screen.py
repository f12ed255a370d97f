"""Stack page: the Python stacks of a task's threads at the time of the request."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static
from tfscale.console.transport.commands import Stack
from tfscale.console.tui.dialogs.dialog import Page
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.task import Task


class StackScreen(Page):
    """Page that opens at once and is filled when the agent answers."""

    DEFAULT_CSS = "StackScreen > .frame { width: 95%; height: 95%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,b,enter", "dismiss", "back", show=False),
    ]

    def __init__(self, task: Task, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._shown_task = task
        self._content = Static(Text(f"asking {task} for its stacks", style=appearance.palette.dim))

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="frame"):
            yield self._content

    def show(self, stacks: Stack | str) -> None:
        """Show the stacks, or why there are none."""
        palette = self._look.palette
        if isinstance(stacks, str):
            self._content.update(Text(stacks, style=palette.text))
            return
        at = time.strftime("%H:%M:%S", time.localtime(stacks.at))
        text = Text(f"{self._shown_task}, process {stacks.pid}, at {at}\n\n", style=palette.dim)
        for line in stacks.text.splitlines():
            text.append(f"{line}\n", style=palette.text if line.startswith(" ") else f"bold {palette.text}")
        self._content.update(text)
