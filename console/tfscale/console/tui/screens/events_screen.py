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
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
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
    ("/", "filter"),
    ("f", "severity"),
    ("j k", "move"),
    ("G", "newest"),
    ("?", "help"),
)


_NOTHING = "Nothing so far. Starts, ends, stragglers, hangs, lost agents will stand here."


class EventsScreen(SnapshotScreen):
    """Events, and below them the evidence of the event under the cursor."""

    DEFAULT_CSS = """
    EventsScreen { background: $background; padding: 0 1; }
    EventsScreen Title, EventsScreen KeyBar, EventsScreen #how { height: 1; }
    EventsScreen Headline { height: auto; max-height: 3; margin: 1 0; }
    EventsScreen EventList { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    EventsScreen VerticalScroll { height: auto; max-height: 45%; background: $panel; padding: 0 1; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("e", "app.pop_screen", "back", show=False),
        Binding("slash", "filter", "filter: words, or kind:straggler subject:worker:3 severity:serious", show=False),
        Binding("f", "least", "only warnings and worse, serious and worse, critical", show=False),
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
        self.least = SEVERITIES[0]
        """Lowest severity of the events that are shown."""
        self._evidence = Static(markup=False)

    @property
    def page(self) -> str:
        return "events"

    @property
    def selected(self) -> tuple[Task, ...]:
        subject = self.events.cursor.subject if self.events.cursor else ""
        tasks = [view.task for view in self.snapshot.tasks] if self.snapshot else []
        return tuple(task for task in tasks if str(task) == subject.partition("/")[0])

    def rows_as_text(self) -> Sequence[str]:
        entry = self.events.cursor
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
        limits = (
            ""
            if self.least == SEVERITIES[0]
            else f"   {self.least}" + ("" if self.least == "critical" else " or worse")
        )
        limits += f"   {words}" if words.strip() else ""
        every = plural(len(entries), "event")
        total = f"{len(rows)} of {every}" if len(rows) < len(entries) else every if entries else _NOTHING
        status = Text(f"{total}{limits}", style=self.appearance.palette.dim, no_wrap=True, overflow="ellipsis")
        self.query_one("#how", Static).update(spelled(status, self.appearance), layout=False)

    def on_event_list_moved(self) -> None:
        self._show_evidence()

    def on_event_list_evidence_requested(self, message: EventList.EvidenceRequested) -> None:
        panel = self.query_one(VerticalScroll)
        panel.display = not panel.display
        self._show_evidence()
        self.post_message(self.JumpRequested(message.entry.at))

    def _show_evidence(self) -> None:
        entry = self.events.cursor
        nothing = Text("nothing so far", style=self.appearance.palette.dim)
        self._evidence.update(nothing if entry is None else evidence(entry, self.appearance))

    def action_back(self) -> None:
        """Close one thing at a time: the filter, the evidence, the page."""
        field, panel = self.query_one(InputLine), self.query_one(VerticalScroll)
        if field.display or field.value:
            field.forget()
            self.events.focus()
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
        self.events.focus()

    def action_least(self) -> None:
        self.least = SEVERITIES[(SEVERITIES.index(self.least) + 1) % len(SEVERITIES)]
        self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "scroll":
            return bool(self.query_one(VerticalScroll).display)
        return super().check_action(action, parameters)

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)
