"""The screens' app: shows what the engine tells, and gives the orders."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from tfscale.console.channels import CommandError
from tfscale.console.commands import Commands
from tfscale.console.engine import Engine
from tfscale.console.events import CommandProgressed, Event, Stage
from tfscale.console.model import Snapshot
from tfscale.console.recorder import Tape
from tfscale.console.recording import SUFFIX
from tfscale.console.remembered import Memory, View
from tfscale.console.replay import Remote
from tfscale.console.screens.base import SnapshotScreen
from tfscale.console.screens.cluster import ClusterScreen
from tfscale.console.screens.confirm import ConfirmScreen, Question
from tfscale.console.screens.help import HelpScreen
from tfscale.console.screens.prompt import PromptScreen
from tfscale.console.screens.stack import StackScreen
from tfscale.console.screens.task import TaskScreen
from tfscale.console.sources.recorded import Player
from tfscale.console.until import Until
from tfscale.console.widgets.look import ASCII, PALETTES, UNICODE, Look, theme
from tfscale.console.widgets.task_table import TaskTable
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.restart import plan_restart
from tfscale.core.task import Task

_REPLAY_ACTIONS = {"step", "faster", "next_event", "last_event", "go_to"}
_WHILE_RUSHING = 0.1
"""Seconds from picture to picture while a replay makes up for time."""


class ConsoleApp(App[None]):
    """The live console."""

    TITLE = "tfscale"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("t", "theme", show=False),
        Binding("p", "pause", show=False),
        Binding("question_mark", "help", show=False),
        Binding("R", "record", show=False),
        Binding("left_square_bracket", "step(-1)", show=False),
        Binding("right_square_bracket", "step(1)", show=False),
        Binding("plus", "faster(1)", show=False),
        Binding("minus", "faster(-1)", show=False),
        Binding("n", "next_event", show=False),
        Binding("N", "last_event", show=False),
        Binding("colon", "go_to", show=False),
    ]

    class SnapshotTaken(Message):
        """The fold was frozen."""

        def __init__(self, snapshot: Snapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

    def __init__(
        self,
        engine: Engine,
        commands: Commands,
        tape: Tape | None = None,
        *,
        ascii: bool = False,
        until: Until | None = None,
        memory: Memory | None = None,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._spec = engine.source.spec
        self._commands = commands
        self._tape = tape or Tape(self._spec)
        self._until = until or Until()
        self._memory = memory or Memory()
        self._remote = Remote(engine.source) if isinstance(engine.source, Player) else None
        self._waiting: Snapshot | None = None
        """The newest, while the one before it has not been on the screen for long enough."""
        self._glyphs = ASCII if ascii else UNICODE
        # Without colours, bars must say by letters what they are made of.
        self._letters = ascii or bool(os.environ.get("NO_COLOR"))
        self._is_paused = False
        for name in PALETTES:
            self.register_theme(theme(name))
        self.theme = next((name for name in PALETTES if name == self._memory.view.theme), next(iter(PALETTES)))

    @property
    def look(self) -> Look:
        return Look(PALETTES[self.theme], self._glyphs, self._letters)

    def on_mount(self) -> None:
        self.cluster = ClusterScreen(None, self.look, self._memory.view)
        self.push_screen(self.cluster)
        self._watch()
        self._record()
        if self._remote is not None:
            # It stands still, and comes to its end, without a picture.
            self.set_interval(0.5, self._show_note)

    @work(group="watch")
    async def _watch(self) -> None:
        await self._engine.run(self)

    @work(group="record")
    async def _record(self) -> None:
        await self._tape.run()

    def event_folded(self, _event: Event) -> None:
        """A listener of the engine: the screens show pictures alone."""

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """A listener of the engine."""
        if self._remote is not None:
            self._remote.see(snapshot)
            if self._remote.player.is_rushing and self._waiting is not None:
                self._waiting = snapshot
                return
        if self._until.is_over(snapshot, self._engine.state):
            self.exit()
        self._show(snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        self._waiting = snapshot
        self.post_message(self.SnapshotTaken(snapshot))
        self.set_timer(_WHILE_RUSHING, lambda: self._show_newest(snapshot))

    def _show_newest(self, shown: Snapshot) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting is not shown:
            self._show(waiting)

    def on_console_app_snapshot_taken(self, message: SnapshotTaken) -> None:
        self._show_note()
        if self._is_paused:
            return
        for screen in self.screen_stack:
            if isinstance(screen, SnapshotScreen):
                screen.snapshot = message.snapshot

    def action_theme(self) -> None:
        names = list(PALETTES)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]
        for screen in self.screen_stack:
            if isinstance(screen, SnapshotScreen):
                screen.look = self.look
        self._remember(replace(self._memory.view, theme=self.theme))

    def on_cluster_screen_viewed(self, message: ClusterScreen.Viewed) -> None:
        self._remember(replace(message.view, theme=self._memory.view.theme))

    def _remember(self, view: View) -> None:
        try:
            self._memory.keep(view)
        except OSError as error:
            self.notify(f"{self._memory.path}: not remembered: {error.strerror}", severity="warning")

    def action_pause(self) -> None:
        if self._remote is not None:
            self._remote.player.pause()
            self._show_note()
        else:
            self._is_paused = not self._is_paused
            self.cluster.title_line.is_paused = self._is_paused

    def action_record(self) -> None:
        if self._remote is not None:
            self.notify("this is a replay: it is recorded already")
        elif self._tape.path is not None:
            path = self._tape.path
            self._tape.end()
            self.notify(self._tape.problem or f"recorded to {path}")
        else:
            self._begin_recording()
        self._show_note()

    def _begin_recording(self) -> None:
        now = self._engine.source.now()
        path = Path(f"{self._spec.name}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}{SUFFIX}")
        try:
            self._tape.begin(path, now, self._engine.state.standing(now))
            self.notify(f"recording to {path}; R ends it")
        except TfscaleError as error:
            self.notify(str(error), severity="error")

    def _show_note(self) -> None:
        if self._tape.problem is not None:
            self.notify(self._tape.problem, severity="error")
            self._tape.problem = None
        note = "" if self._tape.path is None else f"{self._glyphs.running} recording"
        if self._remote is not None:
            note = self._remote.title()
            if (damage := self._remote.news_of_damage()) is not None:
                self.notify(damage, severity="warning", timeout=30)
        self.cluster.title_line.note = note

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _REPLAY_ACTIONS:
            return self._remote is not None
        return super().check_action(action, parameters)

    def action_step(self, seconds: int) -> None:
        if self._remote is not None:
            self._remote.player.step(float(seconds))

    def action_faster(self, by: int) -> None:
        if self._remote is not None:
            self._remote.player.faster(by)
            self._show_note()

    def action_next_event(self) -> None:
        if self._remote is not None and self.cluster.snapshot is not None:
            self._remote.next_event(self.cluster.snapshot)

    def action_last_event(self) -> None:
        if self._remote is not None and self.cluster.snapshot is not None:
            self._remote.last_event(self.cluster.snapshot)

    def action_go_to(self) -> None:
        self.push_screen(PromptScreen("Go to 12:03:20, +90s, -5m or 50%", self.look), self._go_to)

    def _go_to(self, words: str | None) -> None:
        if self._remote is not None and words:
            try:
                self._remote.go_to(words)
            except UsageError as error:
                self.notify(str(error), severity="error")

    def action_help(self) -> None:
        self.push_screen(HelpScreen(self.look))

    def on_task_table_chosen(self, message: TaskTable.Chosen) -> None:
        self._show_task(message.task, only_log=False)

    def on_cluster_screen_log_wanted(self, message: ClusterScreen.LogWanted) -> None:
        self._show_task(message.task, only_log=True)

    def _show_task(self, task: Task, *, only_log: bool) -> None:
        follow = self._commands.follow_log
        self.push_screen(TaskScreen(self.cluster.snapshot, self.look, task, follow, only_log=only_log))

    def on_task_screen_stack_wanted(self, message: TaskScreen.StackWanted) -> None:
        screen = StackScreen(message.task, self.look)
        self.push_screen(screen)
        self._fetch_stack(message.task, screen)

    @work(group="stacks")
    async def _fetch_stack(self, task: Task, screen: StackScreen) -> None:
        try:
            screen.show(await self._commands.stack(task))
        except CommandError as error:
            screen.show(str(error))

    def on_cluster_screen_ordered(self, message: ClusterScreen.Ordered) -> None:
        snapshot = self.cluster.snapshot
        if snapshot is None:
            return
        touched = message.tasks
        if message.verb != "start":
            touched = plan_restart(self._spec, snapshot.strategy, message.tasks)
        question = Question(message.verb, message.tasks, touched, snapshot.strategy, snapshot.generation)
        self.push_screen(ConfirmScreen(question, self.look), lambda agreed: self._answered(question, agreed))

    def _answered(self, question: Question, agreed: bool | None) -> None:
        if agreed:
            self._order(question)

    @work(group="orders")
    async def _order(self, question: Question) -> None:
        try:
            async for progress in self._commands.order(question.verb, question.asked, question.generation or 0):
                self._engine.inbox.put(replace(progress, at=self._engine.source.now()))
        except CommandError as error:
            self._engine.inbox.put(_failed(question, self._engine.source.now(), str(error)))


def _failed(question: Question, at: float, why: str) -> CommandProgressed:
    return CommandProgressed(at, question.verb, Stage.FAILED, question.asked, question.generation or 0, why)
