"""Incidents as lanes on one axis of time: bars from begin to end, marks for starts, moves, cuts and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from tfscale.console.engine.timeline.lanes import Lane, Span
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Glyphs
from tfscale.console.tui.widgets.base_widgets import AppearanceWidget
from tfscale.core.text import clock

_LEAST_SPAN = 60.0
"""Seconds that the axis has at least."""
_WIDEST_NAME = 24
"""Cells of a lane's name."""


class EventLanes(AppearanceWidget, can_focus=True):
    """Lanes, with a cursor on one incident; only the lanes around it are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "lane(-1)", "the lane above", show=False),
        Binding("down,j", "lane(1)", "the lane below", show=False),
        Binding("left", "incident(-1)", "the incident before in the lane", show=False),
        Binding("right", "incident(1)", "the incident after", show=False),
        Binding("enter", "choose", "the task at that moment; in a replay, go to that moment", show=False),
    ]

    place: reactive[tuple[str, int]] = reactive(("", 0))
    """Lane by its name, and number of the incident's entry under the cursor."""

    class Moved(Message):
        """Move of the cursor to another incident."""

    class Chosen(Message):
        """Request to go to the incident under the cursor."""

        def __init__(self, lane: Lane, span: Span) -> None:
            super().__init__()
            self.lane, self.span = lane, span

    def __init__(self) -> None:
        super().__init__()
        self._lanes: Sequence[Lane] = ()
        self._now = 0.0

    def show(self, lanes: Sequence[Lane], now: float) -> None:
        self._lanes, self._now = lanes, now
        self.refresh()

    @property
    def cursor(self) -> tuple[Lane, Span] | None:
        """Lane and incident under the cursor; at first the newest."""
        lane = next((lane for lane in self._lanes if lane.name == self.place[0]), None)
        if lane is None:
            lane = max(self._lanes, key=lambda each: each.spans[-1].begin, default=None)
        if lane is None:
            return None
        return lane, next((span for span in lane.spans if span.entry.number == self.place[1]), lane.spans[-1])

    def _go(self, lane: Lane, span: Span) -> None:
        self.place = lane.name, span.entry.number
        self.post_message(self.Moved())

    def action_lane(self, by: int) -> None:
        if (at := self.cursor) is not None:
            index = max(0, min(len(self._lanes) - 1, list(self._lanes).index(at[0]) + by))
            lane = self._lanes[index]
            self._go(lane, min(lane.spans, key=lambda span: abs(span.begin - at[1].begin)))

    def action_incident(self, by: int) -> None:
        if (at := self.cursor) is not None:
            lane, span = at
            self._go(lane, lane.spans[max(0, min(len(lane.spans) - 1, lane.spans.index(span) + by))])

    def action_choose(self) -> None:
        if (at := self.cursor) is not None:
            self.post_message(self.Chosen(*at))

    def render(self) -> Text:
        width, height, at = self.size.width, self.size.height, self.cursor
        if at is None or height < 2:
            return Text()
        names = min(_WIDEST_NAME, max(len(lane.name) for lane in self._lanes)) + 2
        begin = min(min(span.begin for span in lane.spans) for lane in self._lanes)
        length = max(_LEAST_SPAN, self._now - begin)
        room = max(1, width - names)
        index = list(self._lanes).index(at[0])
        first = max(0, min(index - (height - 1) // 2, len(self._lanes) - (height - 1)))
        palette = self.appearance.palette
        start, end = clock(self._now - length), clock(self._now)
        axis = Text(" " * names + start + end.rjust(max(0, room - len(start))), style=palette.dim, no_wrap=True)
        lines = [axis]
        for lane in self._lanes[first : first + height - 1]:
            is_here = lane is at[0]
            name = Text(
                (self.appearance.glyphs.cursor if is_here else " ") + lane.name[: names - 2],
                style=palette.text if is_here else palette.dim,
            )
            name.append(" " * (names - len(name.plain)))
            lines.append(name.append_text(self._bars(lane, at[1], self._now - length, length, room)))
        return spelled(Text("\n", no_wrap=True, overflow="crop").join(lines), self.appearance)

    def _bars(self, lane: Lane, chosen: Span, begin: float, length: float, room: int) -> Text:
        """Draw a lane's incidents, the chosen one on the colour of the cursor."""
        look, palette = self.appearance, self.appearance.palette
        cells = [(look.glyphs.note, palette.faint)] * room

        def column(at: float) -> int:
            return max(0, min(room - 1, int((at - begin) / length * (room - 1))))

        for span in lane.spans:
            behind = f" on {palette.selected}" if span is chosen else ""
            colour = look.severity(span.entry.severity)
            last = column(self._now if span.end is None else span.end)
            for at in range(column(span.begin) + 1, last + 1) if not span.is_mark else ():
                cells[at] = ("=" if look.letters else "━", f"{colour}{behind}")
            sign = _mark(span, look.glyphs) if span.is_mark else look.sign(span.entry.severity)
            cells[column(span.begin)] = (sign, f"{'bold ' if span is chosen else ''}{colour}{behind}")
            if span.end is None:
                cells[last] = (look.glyphs.arrow[-1] if look.letters else look.glyphs.arrow, f"{colour}{behind}")
        return Text.assemble(*cells, no_wrap=True)


def _mark(span: Span, glyphs: Glyphs) -> str:
    return {"agent": glyphs.lost, "placement": glyphs.moved}.get(span.entry.kind, glyphs.mark)


def legend(glyphs: Glyphs) -> str:
    """Return the meaning of the marks."""
    return f"{glyphs.mark} start, stop, command   {glyphs.moved} move   {glyphs.lost} agent"
