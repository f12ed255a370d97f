"""Drawing of the task table's headings and rows, as of one snapshot and one layout of the columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.segment import Segment
from textual.strip import Strip
from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import HEAT, LIGHT, Appearance, style
from tfscale.console.tui.widgets.charts.arrival_bar import arrival_bar, arrivals
from tfscale.console.tui.widgets.charts.sparkline import PLAIN, SECONDS, Sparkline, lag_scale, sparklines
from tfscale.console.tui.widgets.charts.step_bar import length_of, mean_parts, parts_of, phase_bar, scale_for
from tfscale.console.tui.widgets.table.column_layout import Placed
from tfscale.console.tui.widgets.table.culprit_pane import BarPlace
from tfscale.console.tui.widgets.table.culprits import named_tasks
from tfscale.console.tui.widgets.table.row_order import USUAL_SORT, Row, RowGroup, RowOrder
from tfscale.console.tui.widgets.table.task_columns import Drawn, Scene, usual_device
from tfscale.console.tui.widgets.task_readings import newest_step
from tfscale.core.cluster.task import Task
from tfscale.core.text import step_time

MARGIN = 3
_SHORT_BAR = 8
"""Cells below which two bars cannot be compared."""
_SECONDS_APART = 2.0
"""Seconds by which the newest frames of two agents may be apart: each sends one a second."""


def scene_of(snapshot: Snapshot, appearance: Appearance, *, with_devices: bool) -> Scene:
    """Return the context of all cells; the usual device only where a column needs it."""
    steps = [step for view in snapshot.tasks if (step := newest_step(view)) is not None]
    scene = Scene(
        snapshot.at,
        appearance.glyphs,
        max(steps, default=None),
        frozenset(named_tasks(snapshot)),
        1 + _SECONDS_APART * (snapshot.findings.steps_per_second or 0.0),
        _known_stillness(snapshot),
    )
    return replace(scene, device=usual_device(snapshot.tasks, scene)) if with_devices else scene


class RowDrawing:
    """Drawing with the scales that all rows share."""

    def __init__(self, visible: Callable[[], Sequence[Task]]) -> None:
        """Make the drawing; `visible` returns the tasks whose rows are in view."""
        self._visible = visible
        self.scene = Scene(0.0, Appearance().glyphs)
        self.placed: list[Placed] = []
        self.scale = 1.0
        """Seconds that a full bar stands for."""
        self._longest_bar = 0.0
        self._lags = 0.0, math.inf
        """Scale of all sparklines."""
        self._snapshot: Snapshot | None = None
        self._appearance = Appearance()
        self._order = RowOrder()
        self._edges: dict[Task, list[int]] = {}
        """Edges of each bar's parts as they were drawn last, on this scale and in this width."""
        self._drawn_on: tuple[float, int] = 0.0, 0
        """Scale and width of the bars whose edges are kept."""
        self._trends: dict[Task, Sparkline] = {}
        """Sparklines of the rows drawn since the newest snapshot, and of their neighbours."""

    def begin(
        self, snapshot: Snapshot, scene: Scene, placed: list[Placed], appearance: Appearance, order: RowOrder
    ) -> None:
        """Draw this snapshot from now on."""
        self._snapshot, self.scene, self.placed = snapshot, scene, placed
        self._appearance, self._order = appearance, order
        self._longest_bar = _longest_bar(snapshot, scene.still)
        self.scale = scale_for(self._longest_bar)
        drawn_on = self.scale, next((each.width for each in placed if each.column.drawn is Drawn.BAR), 0)
        if drawn_on != self._drawn_on:
            self._drawn_on, self._edges = drawn_on, {}
        self._lags = lag_scale(view.summary.lag for view in snapshot.tasks if view.summary) or self._lags
        self._trends = {}

    def bar_place(self) -> BarPlace | None:
        """Return where the bars of the steps are; None while there is no room for any."""
        at = MARGIN
        for placed in self.placed:
            if placed.column.drawn is Drawn.BAR:
                is_good = placed.width >= _SHORT_BAR and self.scene.still is None
                return BarPlace(at, placed.width, self.scale) if is_good else None
            at += placed.width + 2
        return None

    def headings(self) -> list[Segment]:
        """Draw the headings of all columns."""
        palette, glyphs = self._appearance.palette, self._appearance.glyphs
        faint, strong = style(palette.dim, palette.background), style(palette.text, palette.background, True)
        segments = [Segment(" " * MARGIN, faint)]
        for placed in self.placed:
            name, width = placed.column.name, placed.width
            is_sorted = name == self._order.sort and (name != USUAL_SORT or self._order.is_reversed)
            if placed.column.drawn is Drawn.BAR and self._longest_bar and not is_sorted:
                text = _spread("in the all-reduce" if self.scene.still else "0", step_time(self.scale), width)
            else:
                text = placed.column.heading(self.scene)
                if is_sorted:
                    arrow = glyphs.rising if self._order.is_reversed else glyphs.falling
                    text = (text if len(text) < width else name) + arrow
                text = fit(text, width, right=placed.column.right)
            segments.append(Segment(text + "  ", strong if is_sorted else faint))
        return segments

    def row(self, row: Row, width: int, *, is_cursor: bool, is_marked: bool) -> Strip:
        """Draw a row in `width` cells."""
        palette, glyphs = self._appearance.palette, self._appearance.glyphs
        background = palette.selected if is_cursor else palette.background
        blank = style(None, background)
        edge = f"{glyphs.cursor if is_cursor else ' '}{glyphs.mark if is_marked else ' '} "
        segments = [Segment(edge, style(palette.parts["transfer"], background))]
        for placed in self.placed:
            if isinstance(row, RowGroup):
                segments += self._of_group(row, placed, background)
            else:
                segments += self._of_task(row.view, placed, background)
            segments.append(Segment("  ", blank))
        return Strip(segments).adjust_cell_length(width, blank)

    def _of_task(self, view: TaskView, placed: Placed, background: str) -> list[Segment]:
        appearance = self._appearance if view.is_up else self._appearance.faded
        match placed.column.drawn:
            case Drawn.BAR if (still := self.scene.still) is not None:
                return arrival_bar(view, still, self.scale, placed.width, appearance, background=background)
            case Drawn.BAR:
                edges = self._edges.setdefault(view.task, [])
                return phase_bar(parts_of(view.summary), self.scale, placed.width, appearance, background, edges)
            case Drawn.TREND:
                return self._trend(view, placed.width, appearance, background)
        text, tone = placed.column.cell(view, self.scene)
        is_named = placed.column.name == "task"
        if is_named and self._order.group:
            text = f"  {text}"
        if view.is_stale and tone in ("text", "dim") and not is_named:
            tone = "dim"
        return [self._cell(text, tone, placed, background, is_bold=is_named)]

    def _trend(self, view: TaskView, width: int, appearance: Appearance, background: str) -> list[Segment]:
        if view.task not in self._trends:
            self._look_back(width)
        plain = style(appearance.palette.dim, background)
        pieces = self._trends.get(view.task) or ((" " * width, PLAIN),)
        # The bright colours of the heat map need a dark ground.
        ground = HEAT[0] if appearance.palette.background == LIGHT.background else background
        return [Segment(text, plain if colour == PLAIN else style(HEAT[colour], ground)) for text, colour in pieces]

    def _look_back(self, width: int) -> None:
        """Draw the sparklines of the visible tasks: those of all tasks would take longer than all other drawing."""
        if self._snapshot is not None and (history := self._snapshot.history) is not None:
            tasks = self._visible()
            # Whole cells, cut by the clock: what is drawn stays until a cell is full.
            cell = -(-SECONDS // max(1, width))
            until = self._snapshot.at - self._snapshot.at % cell
            values = history.lags(until, cell * width, tasks)
            drawn = sparklines(values, width, self._lags, self._appearance)
            self._trends = dict(zip(tasks, drawn, strict=True))

    def _of_group(self, group: RowGroup, placed: Placed, background: str) -> list[Segment]:
        glyphs, name = self._appearance.glyphs, placed.column.name
        if placed.column.drawn is Drawn.BAR and self.scene.still is not None:
            return [self._cell(arrivals(group.views), "dim", placed, background)]
        if placed.column.drawn is Drawn.BAR:
            parts = mean_parts([view.summary for view in group.views])
            return phase_bar(parts, self.scale, placed.width, self._appearance, background)
        if name == "task":
            sign = glyphs.opened if group.is_open else glyphs.closed
            return [self._cell(f"{sign} {group.name}", "text", placed, background, is_bold=True)]
        if name == "state":
            up = sum(view.is_up for view in group.views)
            tone = "good" if up == len(group.views) else "warning"
            return [self._cell(f"{up}/{len(group.views)} up", tone, placed, background)]
        if name == "flag":
            worst = max(group.views, key=lambda view: placed.column.sorted_by(view, self.scene) or 0)
            return [self._cell(*placed.column.cell(worst, self.scene), placed, background)]
        text, tone = placed.column.of_group(group.views, self.scene)
        return [self._cell(text, tone, placed, background)]

    def _cell(self, text: str, tone: str, placed: Placed, background: str, *, is_bold: bool = False) -> Segment:
        palette = self._appearance.palette
        colour = {"text": palette.text, "dim": palette.dim}.get(tone) or self._appearance.severity(tone)
        drawn = style(colour, background, is_bold or None)
        return Segment(self._appearance.spell(fit(text, placed.width, right=placed.column.right)), drawn)


def _known_stillness(snapshot: Snapshot) -> Stillness | None:
    """Return the present time without a step; None while steps are made, or where nobody knows who waits for whom."""
    still = snapshot.findings.condition.stillness
    is_known = still is not None and (still.late or any(view.waits_for is not None for view in snapshot.tasks))
    return still if is_known else None


def _longest_bar(snapshot: Snapshot, still: Stillness | None) -> float:
    """Return the seconds of the longest bar: a wait while no step is made, else a step; 0 without bars."""
    if still is not None:
        return max([still.seconds, *(view.waits_for or 0.0 for view in snapshot.tasks)])
    return max((length_of(view.summary) for view in snapshot.tasks), default=0.0)


def _spread(left: str, right: str, width: int) -> str:
    return left + right.rjust(width - len(left)) if len(left) + len(right) < width else right.rjust(width)
