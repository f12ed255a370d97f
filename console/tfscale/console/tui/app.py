"""Textual application of the console: shows the engine's snapshots and gives commands to the agents."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, Provider
from textual.message import Message
from textual.notifications import SeverityLevel
from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.analysis.findings import one_each
from tfscale.console.ending.end_card import EndCard, end_card
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, Rewound
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.settings.view_state import View, ViewFile
from tfscale.console.transport.commands import Commands
from tfscale.console.tui.attention import (
    POP_TITLE,
    PUSH_TITLE,
    Attention,
    Key,
    key_of,
    set_title,
    silenced,
    terminal_title,
)
from tfscale.console.tui.changed_cells import SparingApp
from tfscale.console.tui.dialogs.command_entry import CommandEntry
from tfscale.console.tui.dialogs.help_screen import HelpScreen, keys_of
from tfscale.console.tui.dialogs.leave import LeaveScreen
from tfscale.console.tui.dialogs.task_orders import Orders
from tfscale.console.tui.recording_control import RecordingControl
from tfscale.console.tui.screen_copy import Copied, save_screen
from tfscale.console.tui.screens.advice_screen import AdviceScreen
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.screens.cluster_screen import ClusterScreen
from tfscale.console.tui.screens.command_names import NamedCommand, commands_of
from tfscale.console.tui.screens.command_palette import ConsoleCommands
from tfscale.console.tui.screens.events_screen import EventsScreen
from tfscale.console.tui.screens.hosts_screen import HostsScreen
from tfscale.console.tui.screens.steps_screen import StepsScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from tfscale.console.tui.widgets.appearance.theme import ASCII, PALETTES, UNICODE, Appearance, theme, theme_name
from tfscale.console.tui.widgets.base_widgets import CulpritWanted, TaskOpened
from tfscale.console.tui.widgets.lifetime.end_pane import EndPane
from tfscale.console.tui.widgets.navigation.tab_line import PageChosen
from tfscale.console.tui.widgets.panes.cluster_summary import Tag, Title
from tfscale.console.tui.widgets.panes.headline_pane import Headline, headline
from tfscale.console.tui.widgets.table.culprits import next_culprit
from tfscale.core.access.orders import ORDERS
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError

_PAGES: dict[str, type[SnapshotScreen]] = {
    "steps": StepsScreen,
    "events": EventsScreen,
    "advice": AdviceScreen,
}
"""Pages of the whole cluster that need nothing but the snapshot."""
_WHILE_LATE = 0.5
"""Seconds between two pictures of the past: on a busy machine a picture of each second would take the console as long
as the second did, and it would stay behind."""
_TOAST = 10.0
"""Seconds for which a new serious finding is told on another page."""


class Leaving(Enum):
    """Wish with which the operator leaves, other than to end the console alone."""

    RUN_GOES_ON = "run goes on"
    RUN_ENDS = "run ends"
    """Also where all tasks of an own run have ended."""
    TO_RUNS = "to the list of runs"


class ConsoleApp(SparingApp[Leaving]):
    """Live console in a terminal."""

    TITLE = "tfscale"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ConsoleCommands}
    CSS = """
    CommandPalette SearchIcon { display: none; }
    .-ascii CommandPalette #--input, .-ascii CommandPalette #--input.--list-visible { border: ascii $secondary; }
    .-ascii CommandPalette CommandList { border: none; }
    .-ascii CommandPalette LoadingIndicator { display: none; }
    .-ascii * { scrollbar-size: 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(order.key, f"order('{order.name}')", order.hint, show=False) for order in ORDERS.values()),
        Binding("1", "open('cluster')", "every task, the first page", show=False),
        Binding("2,v", "open('steps')", "the last steps of all workers, side by side", show=False),
        Binding("3", "open('heat')", "all tasks or GPUs as a heat map", show=False),
        Binding("4,e", "open('events')", "what happened, when, and the evidence", show=False),
        Binding("5,A", "open('advice')", "what limits the cluster, and what would help", show=False),
        Binding("6", "open('hosts')", "hosts, spares, the links between them, who else uses them", show=False),
        Binding("7", "open('log')", "the log of the task under the cursor", show=False),
        Binding("exclamation_mark", "culprit", "the culprit; again: the next task with trouble", show=False),
        Binding("p", "pause", "hold the picture still", show=False),
        Binding("R", "record", "record to a file; again: end it", show=False),
        Binding("M", "acknowledge", "acknowledge the finding on top: no alarm; again: all alarms", show=False),
        Binding("colon", "command", "a command by its name, with completion", show=False),
        Binding("y", "copy(False)", "copy the row under the cursor, or the marked ones", show=False),
        Binding("Y", "copy(True)", "copy the sentence on top", show=False),
        Binding("ctrl+s", "save_screen", "save this screen as a picture and as text", show=False),
        Binding("w", "runs", "the other runs on this machine", show=False),
        Binding("t", "theme", "the next theme: dark, light, high contrast", show=False),
        Binding("question_mark", "help", "help: what every key does here", show=False),
        Binding("q,ctrl+c", "quit", "quit", show=False),
    ]

    class SnapshotTaken(Message):
        """Arrival of a new snapshot."""

        def __init__(self, snapshot: Snapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

    def __init__(
        self,
        engine: Engine,
        commands: Commands,
        tape: ActiveRecording | None = None,
        *,
        ascii: bool = False,
        until: StopCondition | None = None,
        view_file: ViewFile | None = None,
        read_only: bool = False,
        palette: str | None = None,
        owns_run: bool = False,
        bell: bool = False,
        is_of_list: bool = False,
        alerts: RunAlerts | None = None,
    ) -> None:
        """Show an engine's cluster; `is_of_list` where it was chosen from a list of runs, to which a key leads back."""
        super().__init__()
        self._rings = bell
        self._owns_run = owns_run
        self._is_of_list = is_of_list
        self._alerts = alerts
        self._engine = engine
        self._spec = engine.source.spec
        self._commands = commands
        tape = tape or ActiveRecording(self._spec)
        self._orders = Orders(self, engine, commands, lambda: tape.path)
        self._is_read_only = read_only
        self._recording = RecordingControl(tape, engine)
        self._until = until or StopCondition()
        self._view_file = view_file or ViewFile()
        self._waiting: Snapshot | None = None
        """Newest snapshot, held back until the one before has been visible for a while."""
        self._shown: Snapshot | None = None
        """Snapshot that the screens show."""
        self._glyphs = ASCII if ascii else UNICODE
        # Without colours, and with 16 colours, of which some parts would share one, bars are made of letters.
        self._letters = ascii or bool(os.environ.get("NO_COLOR")) or self.console.color_system == "standard"
        self.set_class(ascii, "-ascii")
        self.set_class(read_only, "-read-only")
        self.set_class(bool(commands.why_no_order()), "-observer")
        self.set_class(is_of_list, "-of-list")
        self._is_paused = False
        self._memory = RunMemory()
        self._attention = Attention()
        self._acknowledged: frozenset[Key] = frozenset()
        """Findings that raise no alarm any more."""
        self._newest: Snapshot | None = None
        """Newest snapshot as it was before findings were silenced; None before the first."""
        self._terminal_title = ""
        for name in PALETTES:
            self.register_theme(theme(name))
        self._kept_theme = theme_name(palette, self._view_file.view.theme)
        self.theme = self._kept_theme

    @property
    def appearance(self) -> Appearance:
        return Appearance(PALETTES[self.theme], self._glyphs, self._letters)

    def on_mount(self) -> None:
        self.cluster = ClusterScreen(None, self.appearance, self._commands.follow_log, self._view_file.view)
        self.push_screen(self.cluster)
        if len(self._spec.tasks) == 1:
            self.push_screen(self._page_of(next(iter(self._spec.tasks))))
        self._watch()
        self._record()

    @work(group="watch")
    async def _watch(self) -> None:
        await self._engine.run(self)

    @work(group="record")
    async def _record(self) -> None:
        await self._recording.run()

    def event_folded(self, event: Event) -> None:
        """Remember an event for the end card; the screens show snapshots only. Called by the engine."""
        if isinstance(event, Rewound):
            self._memory = RunMemory()
        self._memory.fold(event)
        if self._alerts is not None:
            self._alerts.event_folded(event)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Show a snapshot. Called by the engine."""
        self._memory.add(snapshot)
        if self._alerts is not None:
            self._alerts.recording = self._recorded_to
            self._alerts.snapshot_taken(snapshot, self._memory)
        self._call_attention(snapshot)
        if self._waiting is not None and self._rest(snapshot):
            self._waiting = snapshot
            return
        if not snapshot.is_outdated and self._until.is_over(snapshot, self._engine.state):
            self.exit(Leaving.RUN_ENDS if self._owns_run and snapshot.is_over else None)
        self._show(snapshot)

    def _rest(self, snapshot: Snapshot) -> float:
        """Return the seconds between two pictures while snapshots come faster than one can look at them, else 0."""
        return _WHILE_LATE if snapshot.is_outdated else 0.0

    def _name_terminal(self, snapshot: Snapshot) -> None:
        """Set the terminal's title."""
        if self._driver is not None and (title := terminal_title(snapshot, self._glyphs)) != self._terminal_title:
            self._driver.write(("" if self._terminal_title else PUSH_TITLE) + set_title(title))
            self._terminal_title = title

    def _call_attention(self, snapshot: Snapshot) -> None:
        """Tell new serious findings of the present, where no page has them."""
        news = self._attention.news(snapshot)
        if not news or snapshot.is_outdated or not self.is_running:
            return
        if self._rings:
            self.bell()
        if not self.screen.query(Headline):
            for diagnosis in one_each(news):
                severity: SeverityLevel = "error" if diagnosis.severity == "critical" else "warning"
                self.notify(diagnosis.sentence, severity=severity, timeout=_TOAST)

    def on_unmount(self) -> None:
        if self._driver is not None and self._terminal_title:
            self._driver.write(POP_TITLE)

    def failed(self, problem: str) -> None:
        """Show an error of the console's own; may be called from any thread."""
        self.notify(problem, severity="error", timeout=60)

    def alert_failed(self, problem: str) -> None:
        """Show that an alert did not arrive, or that alerts arrive again."""
        if self.is_running:
            self.notify(problem, severity="warning", timeout=_TOAST, markup=False)

    def finish_alerts(self) -> None:
        """Send the alerts that were gathered so far: the console ends."""
        if self._alerts is not None:
            self._alerts.finish(self._memory)

    def _show(self, snapshot: Snapshot) -> None:
        rest = self._rest(snapshot)
        self._waiting = snapshot if rest else None
        self.post_message(self.SnapshotTaken(snapshot))
        if rest:
            self.set_timer(rest, lambda: self._show_newest(snapshot))

    def _show_newest(self, scheduled: Snapshot) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting is not scheduled:
            self._show(waiting)

    def on_console_app_snapshot_taken(self, message: SnapshotTaken) -> None:
        if not self.is_running:  # its screens lose their parts one by one
            return
        self._show_note()
        if self._is_paused:
            return
        self._newest = message.snapshot
        self._give(silenced(message.snapshot, self._acknowledged))

    def _give(self, snapshot: Snapshot) -> None:
        """Give a snapshot to the screens that are seen."""
        self._shown = snapshot
        self._name_terminal(snapshot)
        self._show_end_card()
        for screen in reversed(self.screen_stack):
            if isinstance(screen, SnapshotScreen):
                screen.snapshot = snapshot
            if not screen.is_modal:
                # Screens below are hidden, and get the newest snapshot when they are visible again.
                break

    def end_card(self, *, is_asked: bool = False) -> EndCard | None:
        """Return the card of the run, if it is over, or `is_asked` to end."""
        if self._shown is None:
            return None
        return end_card(
            self._shown, self._memory, self._recorded_to, asked="ended from this console" if is_asked else ""
        )

    @property
    def _recorded_to(self) -> Path | None:
        return self._recording.path

    def _show_end_card(self) -> None:
        card = self.end_card()
        for screen in self.screen_stack:
            for pane in screen.query(EndPane):
                pane.card = card

    def on_snapshot_screen_resumed(self, message: SnapshotScreen.Resumed) -> None:
        if self._shown is not None:
            message.screen.snapshot = self._shown

    def action_theme(self) -> None:
        names = list(PALETTES)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def watch_theme(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, SnapshotScreen):
                screen.appearance = self.appearance
        if self.theme != self._kept_theme:
            self._kept_theme = self.theme
            self._remember(replace(self._view_file.view, theme=self.theme))

    def on_cluster_screen_viewed(self, message: ClusterScreen.Viewed) -> None:
        self._remember(replace(message.view, theme=self._view_file.view.theme))

    def _remember(self, view: View) -> None:
        try:
            self._view_file.keep(view)
        except OSError as error:
            self.notify(f"{self._view_file.path}: the view could not be saved: {error.strerror}", severity="warning")

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._show_note()

    def action_acknowledge(self) -> None:
        """Silence the finding on top; where all are silent, none any more."""
        top = self._shown.findings.top if self._shown is not None else None
        if top is None or self._newest is None:
            self.notify("no finding is on top")
            return
        key = key_of(top)
        is_silent = key in self._acknowledged
        self._acknowledged = frozenset() if is_silent else self._acknowledged | {key}
        self.notify("alarms as before" if is_silent else f"acknowledged: {top.subject}, {top.kind.replace('_', ' ')}")
        self._give(silenced(self._newest, self._acknowledged))

    def action_record(self) -> None:
        try:
            self.notify(self._recording.turn())
        except TfscaleError as error:
            self.notify(str(error), severity="error")
        self._show_note()

    def _show_note(self) -> None:
        """Show on all open pages what is special about this console."""
        if (problem := self._recording.new_problem()) is not None:
            self.notify(problem, severity="error")
        note, tags = self._note(), tuple(self._tags())
        for screen in self.screen_stack:
            for title in screen.query(Title):
                title.note, title.tags = note, tags

    def _note(self) -> str:
        """Return the words beside the name of the cluster."""
        return ""

    def _tags(self) -> Iterator[Tag]:
        """Yield the tags beside the name of the cluster."""
        if self._recording.path is not None:
            yield Tag("REC", "critical")
        if self._is_paused:
            yield Tag("PAUSED", "warning")
        if self._is_read_only:
            yield Tag("OBSERVER", "info")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return self._open_page is None or parameters[0] != self._open_page.page
        if action == "runs":
            return self._is_of_list
        if action == "order":
            offers = self._orders.offers(ORDERS[str(parameters[0])], self._selected(), self._shown)
            return not self._is_read_only and offers
        return super().check_action(action, parameters)

    def action_runs(self) -> None:
        self.exit(Leaving.TO_RUNS)

    def action_command(self) -> None:
        """Have a command typed."""
        self.push_screen(CommandEntry(commands_of(self), self.appearance), self._carry_out)

    def _carry_out(self, typed: NamedCommand | str | None) -> None:
        if isinstance(typed, NamedCommand):
            # Once the line is gone, so that the command finds the page below it.
            self.call_later(typed.call)
        elif typed:
            self._carry_out_words(typed)

    def _carry_out_words(self, typed: str) -> None:
        """Say that what was typed names no command."""
        self.notify(
            f"{typed!r} is no command: ? names all keys, and : with nothing typed the commands",
            severity="error",
            markup=False,
        )

    def action_copy(self, sentence: bool) -> None:
        """Copy the selected rows, or the sentence on top; without rows the sentence."""
        if self._shown is None:
            return
        rows = self._open_page.rows_as_text() if self._open_page and not sentence else ()
        state = self._view_file.path
        copied = Copied("\n".join(rows) or self._shown.moment + headline(self._shown)[1], state and state.parent)
        self.copy_to_clipboard(copied.text)
        self.notify(copied.kept(), title="copied", markup=False)

    def action_save_screen(self) -> None:
        name = f"{self._spec.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        try:
            written = save_screen(self, Path(), name)
        except OSError as error:
            self.notify(f"the screen could not be saved: {error}", severity="error", markup=False)
        else:
            self.notify(f"saved as {written[0]} and {written[1].suffix}", markup=False)

    def action_open(self, name: str) -> None:
        """Open a page of the whole cluster, or the log of the selected task, in place of the open page."""
        selected = self._selected() or self.cluster.selected
        self._close_pages()
        if name == "heat":
            self.cluster.action_heat()
        elif name == "log" and selected:
            self.push_screen(self._page_of(selected[0], only="log"))
        elif name == "hosts":
            near = self._shown.view(selected[0]).agent.host if self._shown and selected else ""
            self.push_screen(HostsScreen(self._shown, self.appearance, near))
        elif (kind := _PAGES.get(name)) is not None:
            self.push_screen(kind(self._shown, self.appearance))

    def on_page_chosen(self, message: PageChosen) -> None:
        if self._open_page is not None and message.page != self._open_page.page:
            self.action_open(message.page)

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(id="--command-palette", placeholder="Search for commands"))

    async def action_quit(self) -> None:
        """Leave; where the console has started the run, ask whether the training goes on."""
        if not self._owns_run:
            self.exit()
        elif _has_ended(self._shown):
            self.exit(Leaving.RUN_ENDS)
        elif not isinstance(self.screen, LeaveScreen):
            self.push_screen(LeaveScreen(self._spec.name, self.appearance), self._leave)

    def _leave(self, goes_on: bool | None) -> None:
        if goes_on is not None:
            # While the question stood there, it may have ended.
            self.exit(Leaving.RUN_GOES_ON if goes_on and not _has_ended(self._shown) else Leaving.RUN_ENDS)

    def action_help(self) -> None:
        self.push_screen(HelpScreen(self.appearance, keys_of(self.screen)))

    def on_task_opened(self, message: TaskOpened) -> None:
        self.push_screen(self._page_of(message.task, moment=message.moment))

    def on_cluster_screen_log_requested(self, message: ClusterScreen.LogRequested) -> None:
        self.push_screen(self._page_of(message.task, only="log"))

    def _page_of(self, task: Task, only: str = "", moment: float | None = None) -> TaskScreen:
        follow, is_sole = self._commands.follow_log, len(self._spec.tasks) == 1
        return TaskScreen(self._shown, self.appearance, task, follow, only=only, is_sole=is_sole, moment=moment)

    def on_task_screen_turned(self, message: TaskScreen.Turned) -> None:
        self._turn_to(self.cluster.table.neighbour(message.task, message.by))

    def _turn_to(self, task: Task) -> None:
        """Show another task on the page of a task, in the same parts."""
        if isinstance(self.screen, TaskScreen) and self.screen.selected != (task,):
            self.cluster.show_row(task)
            self.switch_screen(self._page_of(task, self.screen.only, self.screen.charts.moment))

    def on_culprit_wanted(self, _message: CulpritWanted) -> None:
        self.action_culprit()

    def action_culprit(self) -> None:
        """Go to the culprit, and from a task with trouble to the next: on a task's page, else on the first screen."""
        is_page = isinstance(self.screen, TaskScreen)
        here = self._selected()[0] if is_page else self.cluster.table.chosen
        culprit = next_culprit(self._shown, here) if self._shown is not None else None
        if culprit is None:
            self.notify("no task is to blame at present")
        elif culprit == here and (is_page or self.screen is self.cluster):
            self.notify(f"no task but {here} is to blame")
        elif is_page:
            self._turn_to(culprit)
        else:
            self._close_pages()
            self.cluster.show_row(culprit)

    def _close_pages(self) -> None:
        """Return to the first screen."""
        while self.screen is not self.cluster:
            self.pop_screen()

    def action_order(self, name: str) -> None:
        if (snapshot := self._shown) is not None:
            host = self._open_page.host if self._open_page else ""
            self._orders.ask(ORDERS[name], self._selected(), snapshot, self.appearance, host)

    @property
    def _open_page(self) -> SnapshotScreen | None:
        """Page that is open, also below the command palette; None below a dialogue."""
        screen = self.screen_stack[-2] if isinstance(self.screen, CommandPalette) else self.screen
        return screen if isinstance(screen, SnapshotScreen) else None

    def _selected(self) -> tuple[Task, ...]:
        return self._open_page.selected if self._open_page else ()


def _has_ended(snapshot: Snapshot | None) -> bool:
    return snapshot is not None and snapshot.is_over
