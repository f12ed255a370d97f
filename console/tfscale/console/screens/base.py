"""What all screens share: the newest snapshot and the look, handed on to their widgets."""

from __future__ import annotations

import gc
from contextlib import suppress

from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from tfscale.console.engine.model import Snapshot
from tfscale.console.widgets.look import Look
from tfscale.console.widgets.summary import Keys
from tfscale.core.task import Task

ACTING = frozenset("rxSPb")
"""Keys of what reaches into tasks."""
_UNTIL_GONE = 0.3
"""Seconds in which Textual lets go of a screen."""


class SnapshotScreen(Screen[None]):
    """A screen that the app gives every snapshot to; `redraw` is for what its widgets do not draw by themselves."""

    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    """Its widgets draw it: the whole screen anew, every second, would be most of what drawing costs."""
    look: reactive[Look] = reactive(Look())

    class Resumed(Message):
        """It is seen again, after another one."""

        def __init__(self, screen: SnapshotScreen) -> None:
            super().__init__()
            self.screen = screen

    @property
    def selected(self) -> tuple[Task, ...]:
        """The tasks that a command given here would concern."""
        return ()

    def __init__(self, snapshot: Snapshot | None, look: Look) -> None:
        super().__init__()
        self.set_reactive(SnapshotScreen.snapshot, snapshot)
        self.set_reactive(SnapshotScreen.look, look)

    def redraw(self) -> None:
        """There is a new snapshot, or another look."""

    def watch_snapshot(self) -> None:
        if self.is_mounted:
            self.redraw()

    def watch_look(self) -> None:
        if self.is_mounted:
            self.redraw()

    def on_screen_resume(self) -> None:
        self.post_message(self.Resumed(self))

    def on_unmount(self) -> None:
        # Textual keeps all that widgets which are gone had drawn: https://github.com/Textualize/textual/issues/6665
        with suppress(ImportError, AttributeError):
            from textual._styles_cache import StylesCache

            StylesCache.get_inner_outer.cache_clear()
        # A screen holds itself, and with it the snapshot that it showed: megabytes of many tasks, until garbage is
        # looked for, which by itself is rarely.
        self.app.set_timer(_UNTIL_GONE, gc.collect)

    def on_mount(self) -> None:
        if self.app.has_class("-read-only"):
            for line in self.query(Keys):
                line.keys = tuple(pair for pair in line.keys if not ACTING & set(pair[0].split()))
