"""What all screens share: the newest snapshot and the look, handed on to their widgets."""

from __future__ import annotations

from textual.reactive import reactive
from textual.screen import Screen
from tfscale.console.model import Snapshot
from tfscale.console.widgets.look import Look


class SnapshotScreen(Screen[None]):
    """A screen that the app gives every snapshot to."""

    snapshot: reactive[Snapshot | None] = reactive(None)
    look: reactive[Look] = reactive(Look())

    def __init__(self, snapshot: Snapshot | None, look: Look) -> None:
        super().__init__()
        self.set_reactive(SnapshotScreen.snapshot, snapshot)
        self.set_reactive(SnapshotScreen.look, look)
