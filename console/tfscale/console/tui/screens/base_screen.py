"""Base of all screens: the newest snapshot and the appearance, passed on to their widgets."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import suppress

from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.navigation.tab_line import TabLine
from tfscale.core.access.orders import ORDERS
from tfscale.core.cluster.task import Task

ACTING = frozenset("rxSPb")
"""Keys of the actions that reach into tasks."""
ORDERING = ACTING - {ORDERS["stack"].key}
"""Keys of those that an observer may not do."""
_TABS_FROM = 14
"""Lines of a screen from which on its tabs are shown."""
_UNTIL_GONE = 0.3
"""Seconds after which Textual no longer refers to a closed screen."""


class SnapshotScreen(Screen[None]):
    """Screen that gets every snapshot; `redraw` is for content that no widget draws by itself."""

    DEFAULT_CSS = "SnapshotScreen.-low TabLine { display: none; }"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (_TABS_FROM, "-tall")]  # noqa: RUF012 - Textual's own, no ClassVar there

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

    @property
    def host(self) -> str:
        """Host under the cursor, by its address; empty where the page has no hosts."""
        return ""

    def __init__(self, snapshot: Snapshot | None, appearance: Appearance) -> None:
        super().__init__(classes="ascii" if appearance.glyphs.border == "ascii" else None)
        self.set_reactive(SnapshotScreen.snapshot, snapshot)
        self.set_reactive(SnapshotScreen.appearance, appearance)

    @property
    def page(self) -> str:
        """Name of the page as its tab has it; empty where no tab leads to it."""
        return ""

    def rows_as_text(self) -> Sequence[str]:
        """Return the selected rows as text that can be copied; none where the page has no rows."""
        return ()

    def tabs(self) -> TabLine:
        """Return the line of the tabs, the first of each page."""
        return TabLine(self.page).data_bind(SnapshotScreen.appearance)

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
        is_observed = self.app.has_class("-observer")
        if refused := ACTING if self.app.has_class("-read-only") else ORDERING if is_observed else frozenset():
            for line in self.query(KeyBar):
                line.keys = tuple(pair for pair in line.keys if not refused & set(pair[0].split()))
