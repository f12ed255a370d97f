"""The first screen: the answer, the numbers, every task, and what happened lately."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input
from tfscale.console.model import Snapshot
from tfscale.console.screens.base import SnapshotScreen
from tfscale.console.widgets.look import Look
from tfscale.console.widgets.moments import Moments
from tfscale.console.widgets.summary import Headline, Keys, Legend, Metrics, Title
from tfscale.console.widgets.task_table import SORTS, TaskTable
from tfscale.core.task import Task

_AROUND = 18
"""Lines that are not rows of the table, where there is room for empty ones."""
KEYS = (
    ("q", "quit"),
    ("enter", "task"),
    ("l", "log"),
    ("r", "restart"),
    ("space", "mark"),
    ("/", "filter"),
    ("p", "pause"),
    ("?", "help"),
)


class ClusterScreen(SnapshotScreen):
    """The whole cluster."""

    DEFAULT_CSS = """
    ClusterScreen { background: $background; padding: 0 1; }
    ClusterScreen Title, ClusterScreen Metrics, ClusterScreen Keys { height: 1; }
    ClusterScreen Headline { height: auto; max-height: 3; margin: 1 0; }
    ClusterScreen Legend { height: 2; padding: 1 0 0 3; }
    ClusterScreen TaskTable { scrollbar-size-vertical: 1; overflow-x: hidden; }
    ClusterScreen #tasks { height: 3fr; }
    ClusterScreen Moments { height: 1fr; min-height: 6; margin: 1 0; }
    ClusterScreen Input { height: 1; border: none; padding: 0; display: none; background: $panel; }
    ClusterScreen.short Headline { margin: 0; }
    ClusterScreen.short Legend { height: 1; padding: 0 0 0 3; }
    ClusterScreen.short Moments { margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter by task, host, state or diagnosis", show=False),
        Binding("s", "sort", "sort by the next of task, lag, state", show=False),
        Binding("escape", "clear", "no filter, no marks", show=False),
        Binding("l", "log", "the log of the task; p pauses, G follows", show=False),
    ]

    class LogWanted(Message):
        """The operator wants to read a task's log."""

        def __init__(self, task: Task) -> None:
            super().__init__()
            self.task = task

    def __init__(self, snapshot: Snapshot | None, look: Look) -> None:
        super().__init__(snapshot, look)
        self.table = TaskTable()
        self.title_line = Title()

    @property
    def selected(self) -> tuple[Task, ...]:
        return self.table.selected

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "look": SnapshotScreen.look}
        yield self.title_line.data_bind(**bound)
        yield Headline().data_bind(**bound)
        yield Metrics().data_bind(**bound)
        yield Legend().data_bind(**bound)
        with Vertical(id="tasks"):
            yield self.table.data_bind(**bound)
        yield Moments().data_bind(**bound)
        yield Input(placeholder="filter by task, host, state or diagnosis; enter keeps, esc clears", compact=True)
        keys = Keys().data_bind(**bound)
        keys.keys = KEYS
        yield keys

    def on_mount(self) -> None:
        self.table.focus()

    def on_resize(self) -> None:
        self._make_room()

    def watch_snapshot(self) -> None:
        self._make_room()

    def _make_room(self) -> None:
        """Give up the empty lines where the tasks need them."""
        tasks = len(self.snapshot.tasks) if self.snapshot else 0
        self.set_class(self.size.height - _AROUND < tasks, "short")

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.table.filter = event.value

    def on_input_submitted(self) -> None:
        field = self.query_one(Input)
        field.display = bool(field.value)
        self.table.focus()

    def action_clear(self) -> None:
        field = self.query_one(Input)
        field.value = ""
        field.display = False
        self.table.marked.clear()
        self.table.refresh()
        self.table.focus()

    def action_sort(self) -> None:
        self.sort_by(SORTS[(SORTS.index(self.table.sort) + 1) % len(SORTS)])

    def sort_by(self, sort: str) -> None:
        """By one of SORTS."""
        self.table.sort = sort
        self.notify(f"sorted by {self.table.sort}", timeout=2)

    def action_log(self) -> None:
        if self.table.cursor is not None:
            self.post_message(self.LogWanted(self.table.cursor))
