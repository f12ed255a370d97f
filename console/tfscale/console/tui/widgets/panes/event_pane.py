"""Event pane of the first screen: the newest events, newest last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.engine.model import Snapshot, TimelineEntry
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.appearance.wrap import wrap_hanging
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.core.text import clock

_INDENT = 12
"""Cells of an event's time and sign."""


class EventPane(SnapshotWidget):
    """As many of the newest events as there are lines, in full where lines are left."""

    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)

    def watch_snapshot(self, before: Snapshot | None, after: Snapshot | None) -> None:
        if before is None or after is None or before.timeline != after.timeline:
            self.refresh()

    def render(self) -> Text:
        palette, height = self.appearance.palette, self.size.height
        title = Text("events ", style=palette.dim, no_wrap=True)
        title.append(self.appearance.glyphs.rule * max(0, self.size.width - 7), style=palette.faint)
        moments = self.snapshot.timeline[-max(0, height - 1) :] if self.snapshot and height > 1 else ()
        lines = _lines(moments, height - 1, self.size.width, self.appearance)
        if not lines:
            lines = [Text("nothing so far", style=palette.dim)]
        return spelled(Text("\n").join([title, *lines]), self.appearance)


def _lines(moments: Sequence[TimelineEntry], height: int, width: int, appearance: Appearance) -> list[Text]:
    """Return one line for each event; if lines are left, the newest events in full."""
    spare = height - len(moments)
    lines: list[Text] = []
    for moment in reversed(moments):
        drawn = wrap_hanging(_line(moment, appearance), width, _INDENT, most=max(1, spare + 1))
        spare -= len(drawn) - 1
        lines[:0] = drawn
    return lines


def _line(moment: TimelineEntry, appearance: Appearance) -> Text:
    text = Text()
    text.append(f"{clock(moment.at)}  ", style=appearance.palette.dim)
    text.append(f"{appearance.sign(moment.severity)} ", style=appearance.severity(moment.severity))
    if not moment.text.startswith(moment.subject):
        text.append(f"{moment.subject} ", style=f"bold {appearance.palette.text}")
    return text.append(moment.text, style=appearance.palette.text)
