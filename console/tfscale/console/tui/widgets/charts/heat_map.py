"""Heat map of hundreds of tasks or GPUs, one cell each, drawn line by line (Line API)."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.state_text import flag_text, state_text
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import HEAT, Appearance, severity_sign, style
from tfscale.console.tui.widgets.base_widgets import TaskOpened
from tfscale.console.tui.widgets.charts.heat_measures import MEASURES, HeatMeasure, Spot, spots
from tfscale.console.tui.widgets.charts.step_bar import merged
from tfscale.core.cluster.task import Task

_WIDTHS = (9, 7, 5, 3, 2)
"""Terminal cells for a cell of the map: the widest that leaves all tasks or GPUs visible is used."""
_WITH_VALUE = 7
"""Width of a map cell, in terminal cells, from which on the cell shows its value."""
_FAR = 1_000_000


class HeatMap(ScrollView, can_focus=True):
    """Grid with one cell a task, or a GPU, coloured by a measure."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "the one before", show=False),
        Binding("right", "move(1, 0)", "the next one", show=False),
        Binding("up,k", "move(0, -1)", "a row up", show=False),
        Binding("down,j", "move(0, 1)", "a row down", show=False),
        Binding("pageup", "move(0, -10)", "ten rows up", show=False),
        Binding("pagedown", "move(0, 10)", "ten rows down", show=False),
        Binding("home,g", f"move(-{_FAR}, 0)", "the first", show=False),
        Binding("end,G", f"move({_FAR}, 0)", "the last", show=False),
        Binding("enter", "choose", "the task's numbers, host and log", show=False),
    ]

    snapshot: reactive[Snapshot | None] = reactive(None)
    appearance: reactive[Appearance] = reactive(Appearance())
    measure: reactive[str] = reactive("lag")
    by_gpu: reactive[bool] = reactive(False)
    cursor: reactive[int] = reactive(0, repaint=False)

    def __init__(self, task: Task | None = None) -> None:
        super().__init__()
        self._spots: list[Spot] = []
        self._values: list[float | None] = []
        self._range = (0.0, 1.0)
        self._width, self._columns, self._margin = 2, 1, 0
        self._begin_at = task

    @property
    def spot(self) -> Spot | None:
        """Task or GPU under the cursor."""
        return self._spots[self.cursor] if self.cursor < len(self._spots) else None

    @property
    def current_measure(self) -> HeatMeasure:
        return MEASURES[self.measure]

    def watch_snapshot(self) -> None:
        self._arrange()

    def watch_appearance(self) -> None:
        self.refresh()

    def watch_cursor(self, before: int, after: int) -> None:
        for index in (before, after):
            self.refresh_line(index // self._columns)

    def watch_measure(self) -> None:
        self._arrange()

    def watch_by_gpu(self) -> None:
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        if self.snapshot is None:
            return
        before = self.spot
        at = before.view.task if before else self._begin_at
        gpu = before.gpu.index if before and before.gpu else None
        self._spots = spots(self.snapshot.tasks, by_gpu=self.by_gpu)
        self._values = [self.current_measure.value(spot) for spot in self._spots]
        self._range = self.current_measure.scale(self._values)
        own = [index for index, spot in enumerate(self._spots) if spot.view.task == at]
        exact = [index for index in own if self._spots[index].key == (at, gpu)]
        self.set_reactive(HeatMap.cursor, next(iter(exact or own), 0))
        self._lay_out()
        self.refresh()

    def _lay_out(self) -> None:
        self._margin = 2 + max((len(str(spot.view.task)) for spot in self._spots), default=0)
        self._width, self._columns = self._grid(self.size.width, self.size.height)
        self.virtual_size = Size(self.size.width, -(-len(self._spots) // self._columns))

    def _grid(self, width: int, height: int) -> tuple[int, int]:
        """Return the width of the cells, and their number in a line, with which all fit; the narrowest if none do."""
        room, together = max(1, width - self._margin), _together(self._spots)
        for cell in _WIDTHS:
            columns = max(1, room // cell)
            if columns > together:
                # The GPUs of one task stay beside each other.
                columns -= columns % together
            if -(-len(self._spots) // columns) <= max(1, height):
                break
        return cell, columns

    def lines_for(self, width: int, most: int) -> int:
        """Return the lines, at most `most`, that all cells take in this width."""
        return max(1, min(most, -(-len(self._spots) // self._grid(width, most)[1])))

    def go_to(self, task: Task) -> None:
        """Put the cursor on a task, unless it is on one of its cells already."""
        if self.spot is None or self.spot.view.task != task:
            index = next((index for index, spot in enumerate(self._spots) if spot.view.task == task), None)
            if index is not None:
                self._move_to(index)

    def render_line(self, y: int) -> Strip:
        palette, width = self.appearance.palette, self.size.width
        background = style(palette.dim, palette.background)
        first = (self.scroll_offset.y + y) * self._columns
        if first >= len(self._spots):
            return Strip.blank(width, background)
        segments = [Segment(fit(str(self._spots[first].view.task), self._margin, right=False), background)]
        for index in range(first, min(first + self._columns, len(self._spots))):
            segments += self._cell(index)
        return Strip(merged(segments)).adjust_cell_length(width, background)

    def _cell(self, index: int) -> list[Segment]:
        spot, value = self._spots[index], self._values[index]
        appearance, width = self.appearance, self._width
        gap = 0 if width == 2 else 1
        text = self.current_measure.format_value(value) if width >= _WITH_VALUE and value is not None else ""
        text = appearance.spell(fit(f"{self._sign(spot)}{text.replace(' ', '')}", width - gap, right=False))
        drawn = self._style(value)
        if appearance.letters and not text.strip():
            text = self._shade(value) * (width - gap)
        if index == self.cursor:
            inside = width - gap - 2
            text = f"[{text.strip()[:inside].ljust(inside)}]" if width > 2 or not self._sign(spot) else f"{text[:1]}]"
            drawn += Style(bold=True, reverse=appearance.letters)
        cell = Segment(text, drawn)
        return [cell, Segment(" " * gap, style(None, appearance.palette.background))] if gap else [cell]

    def _sign(self, spot: Spot) -> str:
        """Return the sign for states that must be seen under any measure, as in the table."""
        view, glyphs = spot.view, self.appearance.glyphs
        if view.link.state is not LinkState.UP:
            return glyphs.lost
        if not view.is_up:
            return state_text(view, glyphs)[0][:1]
        worst = next((each.severity for each in view.diagnoses if each.severity != "info"), None)
        if worst is not None:
            return severity_sign(worst, glyphs)
        return "" if self._width < _WITH_VALUE else " "

    def _share(self, value: float) -> float:
        low, high = self._range
        return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0

    def _style(self, value: float | None) -> Style:
        palette = self.appearance.palette
        if value is None or self.appearance.letters:
            return style(palette.text, palette.background)
        level = min(len(HEAT) - 1, int(self._share(value) * len(HEAT)))
        return style("#ffffff" if level < len(HEAT) * 0.6 else "#000000", HEAT[level])

    def _shade(self, value: float | None) -> str:
        shades = self.appearance.glyphs.shades
        return "?" if value is None else shades[min(len(shades) - 1, int(self._share(value) * len(shades)))]

    def legend(self) -> Text:
        """Return the measure's name and the values of the first and the last colour."""
        appearance, measure = self.appearance, self.current_measure
        low, high = self._range
        text = Text(no_wrap=True)
        text.append(f"{self.measure}", style=f"bold {appearance.palette.text}")
        text.append(
            f"  {measure.description}   {appearance.spell(measure.format_value(low))} ", style=appearance.palette.dim
        )
        for level in range(len(HEAT)):
            value = low + (high - low) * (level + 0.5) / len(HEAT)
            shade = self._shade(value) * 2 if appearance.letters else "  "
            text.append(shade, style=self._style(value))
        text.append(f" {appearance.spell(measure.format_value(high))}", style=appearance.palette.dim)
        return text

    def description(self) -> Text:
        """Describe the cell under the cursor."""
        appearance, spot = self.appearance, self.spot
        if spot is None or self.snapshot is None:
            return Text("no GPUs are reported" if self.by_gpu else "", style=appearance.palette.dim)
        text = Text(no_wrap=True, overflow="crop")
        text.append(f"{spot.name} ", style=f"bold {appearance.palette.text}")
        text.append(f"on {spot.view.host}   ", style=appearance.palette.dim)
        value = self.current_measure.format_value(self._values[self.cursor])
        text.append(appearance.spell(f"{self.measure} {value}   "), style=appearance.palette.text)
        state, severity = state_text(spot.view, appearance.glyphs)
        text.append(f"{state}   ", style=appearance.severity(severity))
        flags, severity = flag_text(spot.view, self.snapshot.at, appearance.glyphs)
        text.append(appearance.spell(flags), style=appearance.severity(severity))
        return text

    def action_move(self, right: int, down: int) -> None:
        if self._spots:
            self._move_to(self.cursor + right + down * self._columns)

    def _move_to(self, index: int) -> None:
        self.cursor = max(0, min(len(self._spots) - 1, index))
        self.scroll_to_region(Region(0, self.cursor // self._columns, 1, 1), animate=False, force=True)

    def action_choose(self) -> None:
        if self.spot is not None:
            self.post_message(TaskOpened(self.spot.view.task))

    def on_click(self, event: events.Click) -> None:
        column = (event.x - self._margin) // self._width
        index = (self.scroll_offset.y + event.y) * self._columns + column
        if 0 <= column < self._columns and index < len(self._spots):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()


def _together(spots: list[Spot]) -> int:
    """Return the largest number of cells of one task."""
    counts: dict[Task, int] = {}
    for spot in spots:
        counts[spot.view.task] = counts.get(spot.view.task, 0) + 1
    return max(counts.values(), default=1)
