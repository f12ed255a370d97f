"""Textual application of a replay: the console's screens over a player, with keys that move in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.model import Snapshot
from tfscale.console.sources.recorded import Player
from tfscale.console.transport.commands import Commands
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.dialogs.command_entry import CommandEntry
from tfscale.console.tui.replay_controls import MOMENTS, ReplayControls
from tfscale.console.tui.screens.command_names import commands_of
from tfscale.console.tui.screens.events_screen import EventsScreen
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_summary import Tag, Title
from tfscale.core.errors import UsageError

_WHILE_RUSHING = 0.1
"""Seconds between two pictures while a replay goes to a moment."""


class ReplayApp(ConsoleApp):
    """Console of a recorded cluster: it gives no orders, tells no news, and stands at any moment of the recording."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "step(-1)", "a second back", show=False),
        Binding("right_square_bracket", "step(1)", "a second forth", show=False),
        Binding("plus", "faster(1)", "faster", show=False),
        Binding("minus", "faster(-1)", "slower", show=False),
        Binding("n", "next_event", "to the next event", show=False),
        Binding("N", "last_event", "to the event before", show=False),
    ]

    def __init__(self, engine: Engine, player: Player, commands: Commands, **options: Any) -> None:
        """Show the recording of `player`, which is the engine's source; `options` as of the console."""
        super().__init__(engine, commands, **options | {"read_only": True})
        self._remote = ReplayControls(player)

    def on_mount(self) -> None:
        # A replay changes its position without a snapshot when it pauses and when it ends.
        self.set_interval(0.5, self._show_note)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self._remote.watch(snapshot)
        super().snapshot_taken(snapshot)

    def _rest(self, snapshot: Snapshot) -> float:  # noqa: ARG002 - a replay knows its own pace
        return _WHILE_RUSHING if self._remote.player.is_catching_up else 0.0

    def _call_attention(self, snapshot: Snapshot) -> None:
        """Tell nothing: what was serious then is no news."""

    @property
    def _recorded_to(self) -> Path | None:
        return self._remote.player.path

    def _show_note(self) -> None:
        super()._show_note()
        if (damage := self._remote.new_damage()) is not None:
            self.notify(damage, severity="warning", timeout=30)
        for screen in self.screen_stack:
            for bar in screen.query(KeyBar):
                # Where no title has the position, it is before the keys.
                bar.first = self._remote.keys(has_title=bool(screen.query(Title)))

    def _note(self) -> str:
        return self._remote.title()

    def _tags(self) -> Iterator[Tag]:
        yield Tag("REPLAY", "transfer")
        if self._remote.player.position.is_paused:
            yield Tag("PAUSED", "warning")

    def action_pause(self) -> None:
        self._remote.player.pause()
        self._show_note()

    def action_record(self) -> None:
        self.notify("this is a replay: it is recorded already")

    def action_step(self, seconds: int) -> None:
        self._remote.player.step(float(seconds))

    def action_faster(self, by: int) -> None:
        self._remote.player.faster(by)
        self._show_note()

    def action_next_event(self) -> None:
        if self._shown is not None:
            self._remote.next_event(self._shown)

    def action_last_event(self) -> None:
        if self._shown is not None:
            self._remote.last_event(self._shown)

    def action_command(self) -> None:
        """Have a command or a moment typed."""
        line = CommandEntry(commands_of(self), self.appearance, f"or a moment: {MOMENTS}")
        self.push_screen(line, self._carry_out)

    def _carry_out_words(self, typed: str) -> None:
        """Go to the moment that was typed."""
        try:
            self._remote.go_to(typed)
        except UsageError as error:
            self.notify(str(error), severity="error", markup=False)

    def on_events_screen_jump_requested(self, message: EventsScreen.JumpRequested) -> None:
        self._remote.player.seek(message.at)
        self._remote.player.hold()
        self._show_note()
