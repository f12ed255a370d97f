"""List of events, one line each, newest last, and its filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.core.text import clock

FIELDS = ("severity", "subject", "kind")
"""Fields that a filter can name before a colon."""


def is_wanted(entry: TimelineEntry, words: str, lowest: str) -> bool:
    """Decide whether the event has every word: `kind:straggler` in that field, other words anywhere.

    An event less severe than `lowest` is left out; the end of an event has the severity of the event that ended.
    """
    severity = entry.diagnosis.severity if entry.diagnosis else entry.severity
    rank = SEVERITIES.index(severity) if severity in SEVERITIES else 0
    return rank >= SEVERITIES.index(lowest) and all(_holds(entry, word) for word in words.lower().split())


def _holds(entry: TimelineEntry, word: str) -> bool:
    field, colon, value = word.partition(":")
    if colon and field in FIELDS:
        return value in str(getattr(entry, field)).lower()
    return word in f"{entry.severity} {entry.subject} {entry.kind} {entry.text}".lower()


class EventList(ScrollView, can_focus=True):
    """List that draws only its visible lines; a cursor on the newest event stays on the newest."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "the event before; the mouse selects too", show=False),
        Binding("down,j", "move(1)", "the next event", show=False),
        Binding("pageup", "move(-20)", "20 events back", show=False),
        Binding("pagedown", "move(20)", "20 events on", show=False),
        Binding("home,g", "move(-100000)", "the first event", show=False),
        Binding("end,G", "move(100000)", "the newest event", show=False),
        Binding("enter", "choose", "the evidence in full; in a replay, go to that moment", show=False),
    ]

    appearance: reactive[Appearance] = reactive(Appearance())

    class Moved(Message):
        """Move of the cursor to another event."""

    class EvidenceRequested(Message):
        """Request for the evidence of the event under the cursor."""

        def __init__(self, entry: TimelineEntry) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[TimelineEntry] = ()
        self._at = -1

    @property
    def rows(self) -> Sequence[TimelineEntry]:
        return self._rows

    @property
    def cursor(self) -> TimelineEntry | None:
        """Event under the cursor."""
        return self._rows[self._at] if 0 <= self._at < len(self._rows) else None

    def show(self, rows: Sequence[TimelineEntry]) -> None:
        """Show these events, oldest first."""
        before, was_newest = self.cursor, self._at == len(self._rows) - 1
        self._rows = rows
        self.virtual_size = Size(self.size.width, len(rows))
        same = (at for at, entry in enumerate(rows) if before is not None and entry.number == before.number)
        at = len(rows) - 1 if was_newest else next(same, len(rows) - 1)
        if was_newest or at == len(rows) - 1:
            self._move_to(at)
        else:
            self._at = at
        self.refresh()

    def watch_appearance(self) -> None:
        self.refresh()

    def on_resize(self, _event: events.Resize) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows))
        self._move_to(self._at)

    def render_line(self, y: int) -> Strip:
        palette, width, index = self.appearance.palette, self.size.width, self.scroll_offset.y + y
        if not 0 <= index < len(self._rows):
            return Strip.blank(width, style(None, palette.background))
        entry = self._rows[index]
        background = palette.selected if index == self._at else palette.background
        edge = self.appearance.glyphs.cursor if index == self._at else " "
        severity = style(self.appearance.severity(entry.severity), background)
        text = entry.text.removeprefix(entry.subject).lstrip()
        segments = [
            Segment(edge, style(palette.parts["transfer"], background)),
            Segment(f"{clock(entry.at)}  ", style(palette.dim, background)),
            Segment(self.appearance.spell(f"{self.appearance.sign(entry.severity)} "), severity),
            Segment(f"{entry.kind.replace('_', ' '):<12}", style(palette.dim, background)),
            Segment(f"{entry.subject}  ", style(palette.text, background, True)),
        ]
        bar = len(self._rows) > self.size.height
        room = max(1, width - bar - sum(len(segment.text) for segment in segments))
        text = text if len(text) <= room else f"{text[: room - 1]}…"
        segments.append(Segment(self.appearance.spell(text), style(palette.text, background)))
        return Strip(segments).adjust_cell_length(width, style(None, background))

    def action_move(self, by: int) -> None:
        if self._rows:
            self._move_to(max(0, min(len(self._rows) - 1, self._at + by)))

    def _move_to(self, index: int) -> None:
        self._at = index
        if index >= 0:
            self.scroll_to_region(Region(0, index, 1, 1), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_choose(self) -> None:
        if self.cursor is not None:
            self.post_message(self.EvidenceRequested(self.cursor))

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y
        if 0 <= index < len(self._rows):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()
