"""Base of all screens: the newest snapshot and the appearance, passed on to their widgets."""

from __future__ import annotations

import gc
from contextlib import suppress

from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.panes.key_bar import KeyBar
from tfscale.core.cluster.task import Task

ACTING = frozenset("rxSPb")
"""Keys of the actions that reach into tasks."""
_UNTIL_GONE = 0.3
"""Seconds after which Textual no longer refers to a closed screen."""


class SnapshotScreen(Screen[None]):
    """Screen that gets every snapshot; `redraw` is for content that no widget draws by itself."""

    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    """Newest snapshot. The widgets repaint themselves: repainting the whole screen would double the cost of drawing."""
    appearance: reactive[Appearance] = reactive(Appearance())

    class Resumed(Message):
        """Return of the screen to the top."""

        def __init__(self, screen: SnapshotScreen) -> None:
            super().__init__()
            self.screen = screen

    @property
    def selected(self) -> tuple[Task, ...]:
        """Tasks to which a command given on this screen applies."""
        return ()

    def __init__(self, snapshot: Snapshot | None, appearance: Appearance) -> None:
        super().__init__()
        self.set_reactive(SnapshotScreen.snapshot, snapshot)
        self.set_reactive(SnapshotScreen.appearance, appearance)

    def redraw(self) -> None:
        """Draw after a new snapshot or a change of the appearance."""

    def watch_snapshot(self) -> None:
        if self.is_mounted:
            self.redraw()

    def watch_appearance(self) -> None:
        if self.is_mounted:
            self.redraw()

    def on_screen_resume(self) -> None:
        self.post_message(self.Resumed(self))

    def on_unmount(self) -> None:
        # Textual keeps what removed widgets had drawn: https://github.com/Textualize/textual/issues/6665
        with suppress(ImportError, AttributeError):
            from textual._styles_cache import StylesCache

            StylesCache.get_inner_outer.cache_clear()
        # A screen refers to itself and so keeps its snapshot, megabytes with many tasks, until garbage is collected,
        # which by itself happens rarely.
        self.app.set_timer(_UNTIL_GONE, gc.collect)

    def on_mount(self) -> None:
        if self.app.has_class("-of-list"):
            for line in self.query(KeyBar):
                line.keys = (*line.keys[:1], ("w", "runs"), *line.keys[1:])
        if self.app.has_class("-read-only"):
            for line in self.query(KeyBar):
                line.keys = tuple(pair for pair in line.keys if not ACTING & set(pair[0].split()))
