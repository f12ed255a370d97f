"""Event pane of the first screen: the newest events, newest last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.engine.model import Snapshot, TimelineEntry
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.core.text import clock

_INDENT = 12
"""Cells of an event's time and sign."""


class EventPane(SnapshotWidget):
    """The newest events, one a line; long ones are wrapped where there is room."""

    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)

    def watch_snapshot(self, before: Snapshot | None, after: Snapshot | None) -> None:
        if before is None or after is None or before.timeline != after.timeline:
            self.refresh()

    def render(self) -> Text:
        palette, height = self.appearance.palette, self.size.height
        title = Text("events ", style=palette.dim, no_wrap=True)
        title.append(self.appearance.glyphs.rule * max(0, self.size.width - 7), style=palette.faint)
        entries = self.snapshot.timeline[-max(0, height - 1) :] if self.snapshot and height > 1 else ()
        lines = _lines(entries, height - 1, self.size.width, self.appearance)
        if not lines:
            lines = [Text("nothing so far", style=palette.dim)]
        return spelled(Text("\n").join([title, *lines]), self.appearance)


def _lines(entries: Sequence[TimelineEntry], height: int, width: int, appearance: Appearance) -> list[Text]:
    """Return one line for each event; if lines are left, the newest events in full."""
    spare = height - len(entries)
    lines: list[Text] = []
    for entry in reversed(entries):
        drawn = wrap_hanging(_line(entry, appearance), width, _INDENT, limit=max(1, spare + 1))
        spare -= len(drawn) - 1
        lines[:0] = drawn
    return lines


def _line(entry: TimelineEntry, appearance: Appearance) -> Text:
    text = Text()
    text.append(f"{clock(entry.at)}  ", style=appearance.palette.dim)
    text.append(f"{appearance.sign(entry.severity)} ", style=appearance.severity(entry.severity))
    if not entry.text.startswith(entry.subject):
        text.append(f"{entry.subject} ", style=f"bold {appearance.palette.text}")
    return text.append(entry.text, style=appearance.palette.text)
