"""One task: all that is known of it, and its log; or the log alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static
from tfscale.console.channels import CommandError
from tfscale.console.model import Snapshot
from tfscale.console.screens.base import SnapshotScreen
from tfscale.console.widgets.detail import Detail
from tfscale.console.widgets.log_view import LogView
from tfscale.console.widgets.look import Look
from tfscale.console.widgets.summary import Keys
from tfscale.core.task import Task

TAIL = 500

FollowLog = Callable[[Task, int], AsyncIterator[tuple[str, ...]]]


class TaskScreen(SnapshotScreen):
    """A task's facts above its log."""

    DEFAULT_CSS = """
    TaskScreen { background: $background; padding: 0 1; }
    TaskScreen Detail { height: auto; max-height: 70%; }
    TaskScreen Static { height: 1; color: $secondary; margin: 1 0 0 0; }
    TaskScreen LogView { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    TaskScreen Keys { height: 1; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "back", show=False),
        Binding("p", "pause", "hold the log still", show=False),
        Binding("k", "scroll(-1)", "the log up", show=False),
        Binding("j", "scroll(1)", "the log down", show=False),
        Binding("g,home", "scroll(-1000000)", "the log's begin", show=False),
        Binding("G,end", "follow", "the log's end; follow it", show=False),
        Binding("l", "only_log", "the log alone, or with the numbers", show=False),
    ]

    class LinesRead(Message):
        """More of the log came."""

        def __init__(self, lines: tuple[str, ...]) -> None:
            super().__init__()
            self.lines = lines

    class LogEnded(Message):
        """No more of the log will come."""

        def __init__(self, why: str) -> None:
            super().__init__()
            self.why = why

    def __init__(
        self, snapshot: Snapshot | None, look: Look, task: Task, follow_log: FollowLog, *, only_log: bool = False
    ) -> None:
        super().__init__(snapshot, look)
        self.log_view = LogView()
        self._about = task
        self._only_log = only_log
        self._follow_log = follow_log
        self._held: list[str] = []
        self._is_paused = False
        self._ended = ""

    @property
    def selected(self) -> tuple[Task, ...]:
        return (self._about,)

    def compose(self) -> ComposeResult:
        yield Detail(self._about).data_bind(snapshot=SnapshotScreen.snapshot, look=SnapshotScreen.look)
        yield Static(id="log-title")
        yield self.log_view.data_bind(look=SnapshotScreen.look)
        keys = Keys().data_bind(snapshot=SnapshotScreen.snapshot, look=SnapshotScreen.look)
        keys.keys = (
            ("esc", "back"),
            ("p", "pause"),
            ("j k", "scroll"),
            ("G", "follow"),
            ("l", "only the log"),
            ("b", "stack"),
        )
        yield keys

    def on_mount(self) -> None:
        self.query_one(Detail).display = not self._only_log
        self.watch(self.log_view, "is_following", self._name_log)
        self._name_log()
        self.log_view.focus()
        self._read_log()

    @work(exclusive=True)
    async def _read_log(self) -> None:
        try:
            async for lines in self._follow_log(self._about, TAIL):
                self.post_message(self.LinesRead(lines))
            self.post_message(self.LogEnded("its agent ended it"))
        except CommandError as error:
            self.post_message(self.LogEnded(str(error)))

    def on_task_screen_lines_read(self, message: LinesRead) -> None:
        if self._is_paused:
            self._held.extend(message.lines)
        else:
            self.log_view.extend(message.lines)
        self._name_log()

    def on_task_screen_log_ended(self, message: LogEnded) -> None:
        self._ended = message.why
        self._name_log()

    def _name_log(self) -> None:
        how = "following" if self.log_view.is_following else "scrolled back, G follows again"
        if self._is_paused:
            how = f"paused, {len(self._held)} lines held back"
        self.query_one("#log-title", Static).update(f"log of {self._about}   {self._ended or how}")

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        if not self._is_paused:
            self.log_view.extend(self._held)
            self._held.clear()
        self._name_log()

    def action_scroll(self, by: int) -> None:
        self.log_view.scroll_relative(y=by, animate=False)

    def action_follow(self) -> None:
        self.log_view.is_following = True
        self.log_view.scroll_end(animate=False)

    def action_only_log(self) -> None:
        detail = self.query_one(Detail)
        detail.display = not detail.display
