"""Last line of a starting program's output, in grey: where a start takes long, it often says why."""

from __future__ import annotations

import re

from rich.text import Text
from textual import work
from textual.reactive import reactive
from tfscale.console.engine.model import Snapshot
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import FollowLog
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.console.tui.widgets.lifetime.start_strip import slowest_starting
from tfscale.core.cluster.task import Task
from tfscale.core.text import printable

_NOISE = re.compile(r"[IW]\d{4} \d\d:\d\d|WARNING: All log messages before absl")
"""Lines that TensorFlow itself logs at every start: they would hide what the program says."""


class LastOutput(SnapshotWidget):
    """Last line of the slowest task that starts; empty while none does."""

    line: reactive[str] = reactive("")

    def __init__(self, follow_log: FollowLog) -> None:
        super().__init__()
        self._follow_log = follow_log
        self._followed: Task | None = None

    def watch_snapshot(self, snapshot: Snapshot | None) -> None:
        slowest = slowest_starting(snapshot) if snapshot is not None else None
        # Another task is followed only once this one trains: the slowest may change each second.
        if snapshot and slowest and self._followed and str(self._followed) in snapshot.findings.starts:
            return
        if slowest != self._followed:
            self._followed, self.line = slowest, ""
            self.workers.cancel_node(self)
            if slowest is not None:
                self._follow(slowest)

    @work
    async def _follow(self, task: Task) -> None:
        try:
            async for lines in self._follow_log(task, 1):
                if said := [line for line in lines if line.strip() and not _NOISE.match(line)]:
                    # A progress bar writes over its line.
                    self.line = printable(said[-1].rstrip("\r").rpartition("\r")[2].strip())
        except CommandError:
            self._followed = None  # its agent may not be there so far

    def render(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if self._followed is not None and self.line:
            text.append(f"{self._followed}: {self.line}", style=self.appearance.palette.dim)
        return text
