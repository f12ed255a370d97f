"""Page of a task: facts, charts and log together, or one of these alone."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Snapshot
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import FollowLog
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.lifetime.end_pane import EndPane
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.navigation.tab_line import TabLine
from tfscale.console.tui.widgets.panes.cluster_summary import Title
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.console.tui.widgets.panes.input_line import InputLine
from tfscale.console.tui.widgets.panes.log_view import LogView
from tfscale.console.tui.widgets.panes.task_detail import Detail
from tfscale.console.tui.widgets.peers.task_charts import Charts
from tfscale.core.cluster.task import Task

TAIL = 500
_BOTH = 35
"""Lines from which on facts, charts and log are shown at once."""
KEYS = (
    ("esc", "back"),
    ("J K", "other tasks"),
    ("l", "log"),
    ("b", "stack"),
    ("r", "restart"),
    ("d", "numbers"),
    ("c", "charts"),
    ("left right", "read"),
    ("z", "zoom"),
    ("/ n N", "find"),
    ("p", "pause"),
    ("w", "wrap"),
    ("G", "follow"),
    ("?", "help"),
)
SOLE_KEYS = (("q", "quit"), ("esc", "table"), *KEYS[1:])
"""Keys of the page of a cluster's only task, which is the first screen."""


class TaskScreen(SnapshotScreen):
    """Facts of a task above its charts and its log, as far as there is room."""

    DEFAULT_CSS = """
    TaskScreen { background: $background; padding: 0 1; }
    TaskScreen Title { height: 1; }
    TaskScreen Headline { height: auto; max-height: 4; margin: 1 0; }
    TaskScreen.low Headline { margin: 0; }
    TaskScreen #facts { height: auto; max-height: 60%; scrollbar-size-vertical: 1; }
    TaskScreen #facts.sole { max-height: 50%; }
    TaskScreen.low #facts { max-height: 70%; }
    TaskScreen Detail { height: auto; }
    TaskScreen Charts { height: 4fr; margin: 1 0 0 0; }
    TaskScreen #log-title { height: 1; color: $secondary; margin: 1 0 0 0; }
    TaskScreen LogView { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    TaskScreen KeyBar, TaskScreen InputLine { height: 1; margin: 1 0 0 0; }
    TaskScreen.charts #log-title, TaskScreen.charts LogView { display: none; }
    TaskScreen.charts #facts { max-height: 1; scrollbar-size-vertical: 0; }
    TaskScreen.charts Charts { margin: 0; }
    TaskScreen.log #facts, TaskScreen.log Charts { display: none; }
    TaskScreen.facts Charts, TaskScreen.facts #log-title, TaskScreen.facts LogView { display: none; }
    TaskScreen.facts #facts { height: 1fr; max-height: 100%; }
    TaskScreen.narrow { padding: 0; }
    TaskScreen.low .beside { display: none; }
    TaskScreen.low #log-title, TaskScreen.low KeyBar, TaskScreen.low InputLine { margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("K", "turn(-1)", "the task of the row above", show=False),
        Binding("J", "turn(1)", "the task of the row below", show=False),
        # A focused log would take these keys, and scrolls to no side.
        Binding("left", "read(-1)", "read the charts at the moment before; esc: now", show=False, priority=True),
        Binding("right", "read(1)", "at the moment after", show=False, priority=True),
        Binding("p", "pause", "hold the log still", show=False),
        Binding("c", "only('charts')", "the charts alone, or with the numbers", show=False),
        Binding("d", "only('facts')", "the numbers alone; j and k scroll them", show=False),
        Binding("l", "only('log')", "the log alone, or with the numbers", show=False),
        Binding("z", "zoom", "more time in the charts, in less detail", show=False),
        Binding("w", "wrap", "wrap long lines of the log", show=False),
        Binding("slash", "search", "find in the log", show=False),
        Binding("n", "match(1)", "the next line that was found", show=False),
        Binding("N", "match(-1)", "the one before", show=False),
        Binding("k", "scroll(-1)", "the log up", show=False),
        Binding("j", "scroll(1)", "the log down", show=False),
        Binding("g,home", "scroll(-1000000)", "the log's begin", show=False),
        Binding("G,end", "follow", "the log's end; follow it", show=False),
    ]

    class Turned(Message):
        """Request for the page of the task `by` rows below."""

        def __init__(self, task: Task, by: int) -> None:
            super().__init__()
            self.task = task
            self.by = by

    class LinesRead(Message):
        """Arrival of further lines of the log."""

        def __init__(self, lines: tuple[str, ...]) -> None:
            super().__init__()
            self.lines = lines

    class LogEnded(Message):
        """End of the log."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(
        self,
        snapshot: Snapshot | None,
        appearance: Appearance,
        task: Task,
        follow_log: FollowLog,
        *,
        only: str = "",
        is_sole: bool = False,
        moment: float | None = None,
    ) -> None:
        """Open the page with all parts, or with `facts`, `charts` or `log` alone; the charts are read at `moment`."""
        super().__init__(snapshot, appearance)
        self._is_sole = is_sole
        self.log_view = LogView()
        self.charts = Charts(task, moment)
        self._shown_task = task
        self._only = only
        self._follow_log = follow_log
        self._held: list[str] = []
        self._is_paused = False
        self._ended = ""
        self._was_down = False
        """True where the agent has gone since the log ended, so that it can be read again once it is back."""

    @property
    def only(self) -> str:
        """The part that is shown alone; empty: all."""
        return self._only

    @property
    def page(self) -> str:
        return "log" if self._only == "log" else ""

    @property
    def selected(self) -> tuple[Task, ...]:
        return (self._shown_task,)

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        if self._is_sole:
            yield Title().data_bind(**bound)
            yield Headline().data_bind(**bound)
            yield EndPane().data_bind(SnapshotScreen.appearance)
        with VerticalScroll(id="facts", classes="sole" if self._is_sole else "", can_focus=False):
            yield Detail(self._shown_task).data_bind(**bound)
        yield self.charts.data_bind(**bound)
        yield Static(id="log-title", markup=False)
        yield self.log_view.data_bind(SnapshotScreen.appearance)
        keys = KeyBar(SOLE_KEYS if self._is_sole else KEYS).data_bind(SnapshotScreen.appearance)
        yield InputLine("find in the log; n and N go on, esc ends it", keys)
        yield keys

    def on_mount(self) -> None:
        self.watch(self.log_view, "is_following", self._name_log)
        self._show_only(self._only)
        self._name_log()
        self.log_view.focus()
        self._read_log()

    def on_resize(self) -> None:
        self._show_only(self._only)

    def redraw(self) -> None:
        # The page of a sole task is there before its agent is, and agents come back.
        if self._ended and self._was_down and self._is_up:
            self._read_log()
        self._was_down = not self._is_up

    @property
    def _is_up(self) -> bool:
        return self.snapshot is not None and self.snapshot.view(self._shown_task).link.state is LinkState.UP

    @work(exclusive=True)
    async def _read_log(self) -> None:
        self._ended = ""
        try:
            async for lines in self._follow_log(self._shown_task, TAIL):
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
        self._ended = message.reason
        self._was_down = not self._is_up
        self._name_log()

    def _name_log(self) -> None:
        following = "following" if self.log_view.is_following else "scrolled back, G follows again"
        if self._is_paused:
            following = f"paused, {len(self._held)} lines held back"
        position = self.log_view.match_position
        match = ""
        if position is not None:
            match = f"   {position[0]} of {position[1]} lines found" if position[1] else "   not found"
        title = f"log of {self._shown_task}{match}   {self._ended or following}"
        self.query_one("#log-title", Static).update(title, layout=False)

    def _show_only(self, part: str) -> None:
        self._only = part
        self.query_one(TabLine).page = self.page
        for name in ("facts", "charts", "log"):
            self.set_class(part == name, name)
        # Padding wider than the screen would reach beyond its edge.
        self.set_class(self.app.size.width <= 2, "narrow")
        is_low = self.size.height < _BOTH
        self.set_class(is_low, "low")
        self.query_one(Detail).is_whole = not is_low or part == "facts"
        self.charts.set_class(is_low and part != "charts", "beside")

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        if not self._is_paused:
            self.log_view.extend(self._held)
            self._held.clear()
        self._name_log()

    def action_scroll(self, by: int) -> None:
        pane = self.query_one("#facts") if self._only == "facts" else self.log_view
        pane.scroll_relative(y=by, animate=False)

    def action_follow(self) -> None:
        self.log_view.is_following = True
        self.log_view.scroll_end(animate=False)

    def action_only(self, part: str) -> None:
        self._show_only("" if self._only == part else part)

    def action_back(self) -> None:
        """Close one thing at a time: the search, the cursor in the charts, the part shown alone, the page."""
        if self.log_view.match_position is not None or self.query_one(InputLine).display:
            self._end_search()
        elif self.charts.moment is not None:
            self.charts.moment = None
        elif self._only in ("charts", "facts"):
            self._show_only("")
        else:
            self.app.pop_screen()

    def action_turn(self, by: int) -> None:
        self.post_message(self.Turned(self._shown_task, by))

    def action_read(self, by: int) -> None:
        if not self._has_charts:
            self._show_only("charts")
        self.charts.move(by)

    @property
    def _has_charts(self) -> bool:
        return self._only == "charts" or not (self._only or self.has_class("low"))

    def action_zoom(self) -> None:
        self.charts.zoom()

    def action_wrap(self) -> None:
        self.log_view.is_wrapped = not self.log_view.is_wrapped

    def action_search(self) -> None:
        if self._only in ("charts", "facts"):
            self._show_only("log")
        self.query_one(InputLine).open()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.log_view.search(event.value)
        self._name_log()

    def on_input_submitted(self) -> None:
        self.query_one(InputLine).close()
        self.log_view.focus()

    def action_match(self, by: int) -> None:
        self.log_view.next_match(by)
        self._name_log()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # In a replay these keys go from event to event.
        if action == "match":
            return self.log_view.match_position is not None
        if action == "read":
            # In the line of a search these keys move its cursor.
            return not self.query_one(InputLine).display
        if action == "zoom":
            return self._has_charts
        if action == "scroll":
            return self._only != "charts"
        if action == "wrap" and self._is_sole and self.app.has_class("-of-list"):
            return False  # the key leads back to the list of runs
        if action in ("wrap", "follow"):
            return self._only not in ("charts", "facts")
        return super().check_action(action, parameters)

    def _end_search(self) -> None:
        self.query_one(InputLine).forget()
        self.log_view.search("")
        self.log_view.focus()
        self._name_log()
