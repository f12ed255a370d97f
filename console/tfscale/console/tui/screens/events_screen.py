"""Events page: all events with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Static
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.engine.model import Snapshot, TimelineEntry
from tfscale.console.engine.timeline.lanes import lanes_of
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.base_widgets import TaskOpened
from tfscale.console.tui.widgets.charts.event_lanes import EventLanes, legend
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_summary import Title
from tfscale.console.tui.widgets.panes.event_evidence import evidence
from tfscale.console.tui.widgets.panes.event_list import EventList, is_wanted
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.console.tui.widgets.panes.input_line import InputLine
from tfscale.core.cluster.task import Task
from tfscale.core.text import moment, plural

KEYS = (
    ("esc", "back"),
    ("enter", "evidence"),
    ("L", "lanes"),
    ("/", "filter"),
    ("f", "severity"),
    ("j k", "move"),
    ("G", "newest"),
    ("?", "help"),
)
_IN_LANES = {"enter": ("enter", "the task then"), "L": ("L", "list"), "j k": ("left right", "incident")}
"""Keys whose meaning is another one in the lanes."""
_NOTHING = "Nothing so far. Starts, ends, stragglers, hangs, lost agents will stand here."


class EventsScreen(SnapshotScreen):
    """Events, and below them the evidence of the event under the cursor."""

    DEFAULT_CSS = """
    EventsScreen { background: $background; padding: 0 1; }
    EventsScreen Title, EventsScreen KeyBar, EventsScreen #how { height: 1; }
    EventsScreen Headline { height: auto; max-height: 3; margin: 1 0; }
    EventsScreen EventLanes { height: 1fr; display: none; }
    EventsScreen EventList { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    EventsScreen VerticalScroll { height: auto; max-height: 45%; background: $panel; padding: 0 1; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("e", "app.pop_screen", "back", show=False),
        Binding("slash", "filter", "filter: words, or kind:straggler subject:worker:3 severity:serious", show=False),
        Binding("f", "least", "only warnings and worse, serious and worse, critical", show=False),
        Binding("L", "lanes", "lanes on an axis of time, or the list", show=False),
        Binding("J", "scroll(1)", "the evidence down", show=False),
        Binding("K", "scroll(-1)", "the evidence up", show=False),
    ]

    class JumpRequested(Message):
        """Request that a replay goes to this time."""

        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at

    def __init__(self, snapshot: Snapshot | None, appearance: Appearance) -> None:
        super().__init__(snapshot, appearance)
        self.events = EventList()
        self.lanes = EventLanes()
        self.least = SEVERITIES[0]
        """Lowest severity of the events that are shown."""
        self._evidence = Static(markup=False)
        self._list_keys: tuple[tuple[str, str], ...] = KEYS

    @property
    def page(self) -> str:
        return "events"

    @property
    def selected(self) -> tuple[Task, ...]:
        if self.lanes.display:
            subject = self.lanes.cursor[0].name if self.lanes.cursor else ""
        else:
            subject = self.events.cursor.subject if self.events.cursor else ""
        tasks = [view.task for view in self.snapshot.tasks] if self.snapshot else []
        return tuple(task for task in tasks if str(task) == subject.partition("/")[0])

    @property
    def _entry(self) -> TimelineEntry | None:
        """Event under the cursor of the list or of the lanes, whichever is shown."""
        if self.lanes.display:
            return self.lanes.cursor[1].entry if self.lanes.cursor else None
        return self.events.cursor

    def rows_as_text(self) -> Sequence[str]:
        entry = self._entry
        if entry is None:
            return ()
        text = entry.text if entry.text.startswith(entry.subject) else f"{entry.subject} {entry.text}"
        return (f"{moment(entry.at)}  {entry.severity}  {text}",)

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        yield Title().data_bind(**bound)
        yield Headline().data_bind(**bound)
        yield Static(id="how", markup=False)
        with Vertical():
            yield self.events.data_bind(SnapshotScreen.appearance)
            yield self.lanes.data_bind(SnapshotScreen.appearance)
        with VerticalScroll(can_focus=False):
            yield self._evidence
        keys = KeyBar(KEYS).data_bind(SnapshotScreen.appearance)
        yield InputLine("words, or kind:straggler subject:worker:3 severity:serious", keys)
        yield keys

    def on_mount(self) -> None:
        self.events.focus()
        self.redraw()

    def watch_appearance(self) -> None:
        super().watch_appearance()
        if self.is_mounted:
            self._show_evidence()

    def redraw(self) -> None:
        entries = self.snapshot.timeline if self.snapshot else ()
        words = self.query_one(InputLine).value
        rows = [entry for entry in entries if is_wanted(entry, words, self.least)]
        self.events.show(rows)
        if self.snapshot is not None:
            self.lanes.show(lanes_of(rows, len(self.snapshot.tasks)), self.snapshot.at)
        limits = (
            ""
            if self.least == SEVERITIES[0]
            else f"   {self.least}" + ("" if self.least == "critical" else " or worse")
        )
        limits += f"   {words}" if words.strip() else ""
        every = plural(len(entries), "event")
        total = f"{len(rows)} of {every}" if len(rows) < len(entries) else every if entries else _NOTHING
        marks = f"   {legend(self.appearance.glyphs)}" if self.lanes.display and rows else ""
        status = Text(f"{total}{limits}{marks}", style=self.appearance.palette.dim, no_wrap=True, overflow="ellipsis")
        self.query_one("#how", Static).update(spelled(status, self.appearance), layout=False)

    def on_event_list_moved(self) -> None:
        self._show_evidence()

    def on_event_list_evidence_requested(self, message: EventList.EvidenceRequested) -> None:
        panel = self.query_one(VerticalScroll)
        panel.display = not panel.display
        self._show_evidence()
        self.post_message(self.JumpRequested(message.entry.at))

    def on_event_lanes_moved(self) -> None:
        self._show_evidence()

    def on_event_lanes_chosen(self, message: EventLanes.Chosen) -> None:
        """Go to the moment in a replay, and to the task, whose charts are read there; esc leads back to the lanes."""
        self.post_message(self.JumpRequested(message.span.begin))
        if tasks := self.selected:
            self.post_message(TaskOpened(tasks[0], message.span.begin))

    def action_lanes(self) -> None:
        self.lanes.display = not self.lanes.display
        self.events.display = not self.lanes.display
        self._focus()
        keys = self.query_one(KeyBar)
        if self.lanes.display:
            self._list_keys = keys.keys
        keys.keys = tuple(
            _IN_LANES.get(key, (key, does)) if self.lanes.display else (key, does) for key, does in self._list_keys
        )
        self.redraw()
        # In the lanes each event is so short that its text is wanted beside it.
        self.query_one(VerticalScroll).display = bool(self.lanes.display)
        self._show_evidence()

    def _show_evidence(self) -> None:
        entry = self._entry
        nothing = Text("nothing so far", style=self.appearance.palette.dim)
        self._evidence.update(nothing if entry is None else evidence(entry, self.appearance))

    def action_back(self) -> None:
        """Close one thing at a time: the filter, the evidence, the page."""
        field, panel = self.query_one(InputLine), self.query_one(VerticalScroll)
        if field.display or field.value:
            field.forget()
            self._focus()
        elif panel.display:
            panel.display = False
        else:
            self.app.pop_screen()

    def action_filter(self) -> None:
        self.query_one(InputLine).open()

    def on_input_changed(self) -> None:
        self.redraw()

    def on_input_submitted(self) -> None:
        self.query_one(InputLine).close()
        self._focus()

    def _focus(self) -> None:
        (self.lanes if self.lanes.display else self.events).focus()

    def action_least(self) -> None:
        self.least = SEVERITIES[(SEVERITIES.index(self.least) + 1) % len(SEVERITIES)]
        self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "scroll":
            return bool(self.query_one(VerticalScroll).display)
        return super().check_action(action, parameters)

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)
