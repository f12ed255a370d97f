"""Panel beside the table of a wide screen: one task's numbers and the end of its log, and all tasks as a heat map."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.reactive import reactive
from textual.timer import Timer
from tfscale.console.engine.model import Snapshot
from tfscale.console.transport.commands import FollowLog
from tfscale.console.tui.widgets.appearance.region_frames import frame_title
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.heat_map import HeatMap
from tfscale.console.tui.widgets.panes.task_detail import Detail
from tfscale.console.tui.widgets.side.log_tail import LogTail
from tfscale.core.cluster.task import Task

_PAUSE = 0.4
"""Seconds for which the cursor has to stay on a task before it is shown."""
_SHARE_OF_MAP = 0.35
"""Most of the panel's lines that the heat map takes."""


class SidePanel(Vertical):
    """Counters, log and heat map; it draws nothing while it is not displayed."""

    DEFAULT_CSS = """
    SidePanel { width: 25%; min-width: 56; }
    SidePanel #numbers { height: auto; max-height: 50%; scrollbar-size: 0 0; }
    SidePanel Detail { height: auto; }
    SidePanel LogTail { height: 1fr; min-height: 4; }
    SidePanel HeatMap { scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    appearance: reactive[Appearance] = reactive(Appearance())

    def __init__(self, follow_log: FollowLog, measure: str) -> None:
        super().__init__()
        self._detail = Detail(None, tells_findings=False)
        self._log = LogTail(follow_log)
        self._map = HeatMap()
        self._map.set_reactive(HeatMap.measure, measure)
        self._wanted: Task | None = None
        self._timer: Timer | None = None
        self._shown_task: Task | None = None

    def compose(self) -> ComposeResult:
        self.watch_appearance()
        # Detail has the height of all its lines: a limit of its own would lay the screen out anew each second.
        with VerticalScroll(id="numbers", can_focus=False) as self._numbers:
            yield self._detail
        yield self._log
        yield self._map

    def watch_appearance(self) -> None:
        for part in (self._detail, self._log, self._map):
            part.appearance = self.appearance

    def watch_snapshot(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def show(self, task: Task | None) -> None:
        """Show this task once keys have stopped passing over others."""
        if task != self._wanted:
            self._wanted = task
            if self._shown_task is None:
                self._settle()
            else:
                if self._timer is not None:
                    self._timer.stop()
                self._timer = self.set_timer(_PAUSE, self._settle)

    def _settle(self) -> None:
        if self._wanted != self._shown_task:
            self._shown_task = self._wanted
            self._draw()

    def measure(self, measure: str) -> None:
        """Show this measure in the heat map."""
        self._map.measure = measure
        self._draw()

    def _draw(self) -> None:
        snapshot, task = self.snapshot, self._shown_task
        if snapshot is None or task is None or not self.display or not self.is_mounted:
            return
        self._detail.show(task)
        self._detail.snapshot = snapshot
        self._numbers.border_title = frame_title(str(task), key="enter")
        self._log.show(snapshot.view(task), snapshot.at)
        self._map.snapshot = snapshot
        self._map.go_to(task)
        self._map.border_title = frame_title(f"heat {self._map.measure}", len(snapshot.tasks), "h")
        frame = self._map.styles.gutter.height
        room = max(1, int(self.size.height * _SHARE_OF_MAP) - frame)
        lines = frame + self._map.lines_for(self.size.width - self._map.styles.gutter.width, room)
        if self._map.outer_size.height != lines:
            self._map.styles.height = lines
