"""The screens' app: folds what the source gives, freezes it once a second, and gives the orders."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from tfscale.console.channels import CommandError
from tfscale.console.commands import Commands
from tfscale.console.events import CommandProgressed, Stage
from tfscale.console.model import ClusterState, Snapshot
from tfscale.console.screens.base import SnapshotScreen
from tfscale.console.screens.cluster import ClusterScreen
from tfscale.console.screens.confirm import ConfirmScreen, Question
from tfscale.console.screens.help import HelpScreen
from tfscale.console.screens.stack import StackScreen
from tfscale.console.screens.task import TaskScreen
from tfscale.console.sources import Inbox, Source
from tfscale.console.widgets.look import ASCII, PALETTES, UNICODE, Look, theme
from tfscale.console.widgets.task_table import TaskTable
from tfscale.core.cluster import ClusterSpec
from tfscale.core.restart import plan_restart
from tfscale.core.task import Task

TICK = 1.0
"""Seconds between snapshots."""
_BUNCH = 32


class ConsoleApp(App[None]):
    """The live console."""

    TITLE = "tfscale"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("t", "theme", show=False),
        Binding("p", "pause", show=False),
        Binding("question_mark", "help", show=False),
    ]

    class SnapshotTaken(Message):
        """The fold was frozen."""

        def __init__(self, snapshot: Snapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

    def __init__(
        self,
        spec: ClusterSpec,
        source: Source,
        state: ClusterState,
        commands: Commands,
        *,
        ascii: bool = False,
        seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._spec = spec
        self._source = source
        self._state = state
        self._commands = commands
        self._clock = clock
        self._inbox = Inbox()
        self._glyphs = ASCII if ascii else UNICODE
        # Without colours, bars must say by letters what they are made of.
        self._letters = ascii or bool(os.environ.get("NO_COLOR"))
        self._is_paused = False
        self._seconds = seconds
        """Until the end, from when all training tasks have shown a step."""
        for name in PALETTES:
            self.register_theme(theme(name))
        self.theme = next(iter(PALETTES))

    @property
    def look(self) -> Look:
        return Look(PALETTES[self.theme], self._glyphs, self._letters)

    def on_mount(self) -> None:
        self.cluster = ClusterScreen(None, self.look)
        self.push_screen(self.cluster)
        self._collect()
        self._fold()
        self.set_interval(TICK, self._freeze)

    @work(group="collect")
    async def _collect(self) -> None:
        await self._source.run(self._inbox)

    @work(group="fold")
    async def _fold(self) -> None:
        has_shown = False
        while True:
            await self._inbox.wait()
            for event in self._inbox.take(_BUNCH):
                self._state.fold(event)
            if not has_shown and self._state.reporting:
                has_shown = True
                self._freeze()
            await asyncio.sleep(0)

    def _freeze(self) -> None:
        if self._seconds is not None and self._state.expected_to_report <= self._state.reporting:
            self.set_timer(self._seconds, self.exit)
            self._seconds = None
        self.post_message(self.SnapshotTaken(self._state.snapshot(self._clock())))

    def on_console_app_snapshot_taken(self, message: SnapshotTaken) -> None:
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

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self.cluster.title_line.is_paused = self._is_paused

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
                self._inbox.put(progress)
                self._freeze()
        except CommandError as error:
            self._inbox.put(_failed(question, self._clock(), str(error)))


def _failed(question: Question, at: float, why: str) -> CommandProgressed:
    return CommandProgressed(at, question.verb, Stage.FAILED, question.asked, question.generation or 0, why)
