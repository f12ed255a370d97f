"""Event pane of the first screen: the newest events, newest last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.engine.model import Snapshot, TimelineEntry
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.region_frames import set_title
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.core.text import clock

_INDENT = 12
"""Cells of an event's time and sign."""


class EventPane(SnapshotWidget):
    """The newest events, one a line; long ones are wrapped where there is room."""

    DEFAULT_CSS = "EventPane { border-top: solid $secondary 40%; border-title-color: $secondary; }"
    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)

    def watch_snapshot(self, before: Snapshot | None, after: Snapshot | None) -> None:
        if before is None or after is None or before.timeline != after.timeline:
            self.name_frame()
            self.refresh()

    def name_frame(self) -> None:
        """Write the number of the events into the frame."""
        set_title(self, "events", len(self.snapshot.timeline) if self.snapshot else 0, "e")

    def render(self) -> Text:
        height = self.size.height
        entries = self.snapshot.timeline[-height:] if self.snapshot and height else ()
        lines = _lines(entries, height, self.size.width, self.appearance)
        if not lines:
            lines = [Text("nothing so far", style=self.appearance.palette.dim)]
        return spelled(Text("\n").join(lines), self.appearance)


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
