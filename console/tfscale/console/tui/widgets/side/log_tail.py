"""End of a task's log, which follows; the task may change with each key."""

from __future__ import annotations

from collections import deque

from rich.text import Text
from textual import work
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import TaskView
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import FollowLog
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.region_frames import set_title
from tfscale.console.tui.widgets.base_widgets import AppearanceWidget
from tfscale.console.tui.widgets.panes.log_view import printable_line
from tfscale.core.cluster.task import Task

_LINES = 100
"""Lines that are kept."""
_AGAIN = 5.0
"""Seconds after the end of a log before it is asked for again."""


class LogTail(AppearanceWidget):
    """Newest lines of the log of the task that was shown last, as many as fit.

    It has no place to scroll to, which would lay the screen out anew with each line.
    """

    def __init__(self, follow_log: FollowLog) -> None:
        super().__init__()
        self._follow_log = follow_log
        self._shown_task: Task | None = None
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._is_over = False
        self._ended: float | None = None
        """Time of the snapshot in which the log was found to have ended; None while it is followed."""

    def show(self, view: TaskView, now: float) -> None:
        """Follow the log of this task; once it has ended, again while its agent is there."""
        if view.task != self._shown_task:
            self._begin(view.task)
        elif self._is_over and self._ended is None:
            self._ended = now
        elif self._ended is not None and view.link.state is LinkState.UP and now - self._ended >= _AGAIN:
            self._begin(view.task)

    def _begin(self, task: Task) -> None:
        self._shown_task, self._is_over, self._ended = task, False, None
        self._lines.clear()
        set_title(self, "log", key="l")
        self.refresh()
        self._follow(task)

    @work(exclusive=True)
    async def _follow(self, task: Task) -> None:
        reason = "its agent ended it"
        try:
            async for lines in self._follow_log(task, _LINES):
                self._lines.extend(map(printable_line, lines))
                self.refresh()
        except CommandError as error:
            reason = str(error)
        self._is_over = True
        set_title(self, f"log: {reason}", key="l")

    def render(self) -> Text:
        height, palette = self.size.height, self.appearance.palette
        text = "\n".join([*self._lines][-height:]) if height else ""
        return spelled(Text(text, style=palette.text, no_wrap=True, overflow="crop"), self.appearance)
