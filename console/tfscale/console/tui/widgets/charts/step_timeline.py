"""Newest steps of all workers as bars on one time axis: the entry into each all-reduce, and the waiting in it.

Clocks are not compared. All workers leave an all-reduce together, so each step begins there; each worker's own clock
measures how long after that it entered the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.analysis.steps.phases import longest_lag, transfer
from tfscale.console.history.recent_steps import TaskSteps
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.console.tui.widgets.base_widgets import TaskOpened
from tfscale.console.tui.widgets.charts.step_bar import Piece, bar_of
from tfscale.core.cluster.task import Task
from tfscale.core.text import step_time

ORDER = ("update", "host", "input", "compute", "wait", "transfer")
"""Parts in the order of time. Waiting precedes the transfer, which begins when the last worker has entered."""
_NUMBERS = 20
"""Cells for lag and wait at the right edge."""


@dataclass(frozen=True, slots=True)
class StepLayout:
    """k steps of n tasks in seconds; NaN for a task that has not reported."""

    aligned: TaskSteps
    starts: NDArray[np.float64]
    """(k,) begin of each step, from the first step's begin."""
    length: float
    """Seconds until the last step is over."""
    lag: NDArray[np.floating]
    """(k, n) seconds from the begin of a step to the entry into its all-reduce."""
    wait: NDArray[np.floating]
    """(k, n) seconds of waiting; NaN without a collective."""
    parts: NDArray[np.floating]
    """(6, k, n) in the order of ORDER."""


def timeline(aligned: TaskSteps) -> StepLayout:
    """Place the steps on the time axis."""
    lag = np.asarray(aligned.phases[:-1].sum(axis=0), np.float64)
    reduce = np.asarray(aligned.phases[-1], np.float64)
    network = transfer(reduce) if reduce.size else np.full(len(aligned.sequence), np.nan)
    wait = reduce - network[:, None]
    moving = np.nan_to_num(reduce - wait)
    parts = np.stack([*np.nan_to_num(aligned.phases[:-1]), np.nan_to_num(wait), moving])
    lengths = np.nan_to_num(longest_lag(lag + np.nan_to_num(reduce))) if lag.size else np.zeros(len(aligned.sequence))
    ends = np.cumsum(lengths)
    return StepLayout(aligned, ends - lengths, float(ends[-1]) if len(ends) else 0.0, lag, wait, parts)


class StepBars(ScrollView, can_focus=True, inherit_bindings=False):
    """One row a task, below a line with the steps' numbers. Only visible rows are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "the task above; the mouse selects too", show=False),
        Binding("down,j", "move(1)", "the task below", show=False),
        Binding("pageup", "move(-20)", "20 tasks up", show=False),
        Binding("pagedown", "move(20)", "20 tasks down", show=False),
        Binding("home,g", "move(-100000)", "the first task", show=False),
        Binding("end,G", "move(100000)", "the last task", show=False),
        Binding("enter", "choose", "the task's numbers, charts and log", show=False),
    ]

    appearance: reactive[Appearance] = reactive(Appearance())

    def __init__(self) -> None:
        super().__init__()
        self.cursor: Task | None = None
        self._timeline: StepLayout | None = None
        self._rows: Sequence[Task] = ()
        self._at: dict[Task, int] = {}
        """Row of each task."""
        self._places: dict[Task, int] = {}
        self._last: set[int] = set()
        self._longest = 0
        """Length of the longest task name."""
        self._drawn: dict[tuple[Task, bool], Strip] = {}
        """Drawn rows, with the cursor and without, until the next change."""

    @property
    def rows(self) -> Sequence[Task]:
        return self._rows

    @property
    def timeline(self) -> StepLayout | None:
        """Steps on the screen."""
        return self._timeline

    def show(self, layout: StepLayout, rows: Sequence[Task]) -> None:
        """Draw the steps of `layout`, with a row for each task of `rows`."""
        self._timeline, self._rows = layout, rows
        self._at = {task: row for row, task in enumerate(rows)}
        self._places = {task: place for place, task in enumerate(layout.aligned.tasks)}
        self._last = last_to_enter(layout)
        self._longest = max((len(str(task)) for task in rows), default=0)
        self._drawn.clear()
        if self.cursor not in self._at:
            self.cursor = next(iter(rows), None)
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.refresh()

    def watch_appearance(self) -> None:
        self._drawn.clear()
        self.refresh()

    def on_resize(self, _event: events.Resize) -> None:
        self._drawn.clear()
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)

    def render_line(self, y: int) -> Strip:
        width, blank = self.size.width, style(None, self.appearance.palette.background)
        index = self.scroll_offset.y + y - 1
        if self._timeline is None or not self._rows or (y and not 0 <= index < len(self._rows)):
            return Strip.blank(width, blank)
        name = self._longest + 3
        # The scrollbar covers the last cell.
        is_scrolled = len(self._rows) + 1 > self.size.height
        bar = max(1, width - name - _NUMBERS - is_scrolled)
        if y == 0:
            return Strip(self._headings(self._timeline, name, bar)).adjust_cell_length(width, blank)
        task = self._rows[index]
        key = task, task == self.cursor
        if key not in self._drawn:
            self._drawn[key] = self._row(self._timeline, task, name, bar).adjust_cell_length(width, blank)
        return self._drawn[key]

    def _headings(self, layout: StepLayout, name: int, width: int) -> list[Segment]:
        line = [" "] * width
        for number, start in zip(layout.aligned.sequence.tolist(), layout.starts.tolist(), strict=True):
            at = round(start / max(layout.length, 1e-9) * width)
            line[at : at + len(f"step {number:,}")] = f"step {number:,}"
        text = "".join(line)[:width]
        palette = self.appearance.palette
        numbers = f"{'enters after':>{_NUMBERS - 8}}{'waits':>8}"
        return [Segment(" " * name + text + numbers, style(palette.dim, palette.background))]

    def _row(self, layout: StepLayout, task: Task, name: int, width: int) -> Strip:
        palette, column = self.appearance.palette, self._places[task]
        is_cursor, is_last = task == self.cursor, column in self._last
        background = palette.selected if is_cursor else palette.background
        edge = self.appearance.glyphs.cursor if is_cursor else " "
        sign = self.appearance.glyphs.alarm if is_last else " "
        colour = self.appearance.severity("warning") if is_last else palette.text
        named = [
            Segment(edge, style(palette.parts["transfer"], background)),
            Segment(f"{sign}{task!s:<{name - 2}}", style(colour, background, True)),
        ]
        lag, wait = _newest_of(layout.lag, column), _newest_of(layout.wait, column)
        numbers = Segment(
            self.appearance.spell(f"{step_time(lag):>{_NUMBERS - 8}}{step_time(wait):>8}"),
            style(colour, background),
        )
        bar = bar_of(_pieces(layout, column, width), ORDER, width, self.appearance, background)
        return Strip([*named, *bar, numbers])

    def action_move(self, by: int) -> None:
        if self._rows and self.cursor is not None:
            self._move_to(max(0, min(len(self._rows) - 1, self._at[self.cursor] + by)))

    def _move_to(self, index: int) -> None:
        before = index if self.cursor is None else self._at[self.cursor]
        self.cursor = self._rows[index]
        for line in (before, index):
            self.refresh_line(line + 1)
        # The headings cover the first visible line.
        self.scroll_to_region(Region(0, index, 1, 2), animate=False, force=True)

    def action_choose(self) -> None:
        if self.cursor is not None:
            self.post_message(TaskOpened(self.cursor))

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y > 0 and 0 <= index < len(self._rows):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()


def last_to_enter(layout: StepLayout) -> set[int]:
    """Return the last task to enter the newest shown all-reduce, if others waited for it: one index or none."""
    if not len(layout.lag) or np.isnan(layout.wait[-1]).all() or layout.lag.shape[1] < 2:
        return set()
    return {int(np.nanargmin(layout.wait[-1]))}


def sentence(layout: StepLayout, appearance: Appearance) -> Text:
    """Describe the newest shown step."""
    palette, text = appearance.palette, Text(no_wrap=True, overflow="ellipsis")
    if not len(layout.lag):
        return text.append("no steps so far", style=palette.dim)
    text.append(f"step {int(layout.aligned.sequence[-1]):,}: ", style=palette.dim)
    last = last_to_enter(layout)
    if not last:
        alone = layout.lag.shape[1] < 2
        reason = "one worker alone waits for nobody" if alone else "these workers do not meet in an all-reduce"
        return text.append(reason, style=palette.text)
    column = last.pop()
    others = np.delete(layout.wait[-1], column)
    network = float(np.nanmin(layout.aligned.phases[-1, -1]))
    waited = float(np.nanmedian(others)) if not np.isnan(others).all() else None
    text.append(f"{layout.aligned.tasks[column]} entered last", style=f"bold {palette.text}")
    text.append(f"; the others waited {step_time(waited)} for it (median)", style=palette.text)
    return text.append(f"; then the network took {step_time(network)}", style=palette.dim)


def _newest_of(values: NDArray[np.floating], column: int) -> float | None:
    value = float(values[-1, column]) if len(values) else np.nan
    return None if np.isnan(value) else value


def _pieces(layout: StepLayout, column: int, width: int) -> Iterator[Piece]:
    """Return the pieces of a step's bar; the last eighths stay free to separate it from the next step."""
    scale = width * 8 / max(layout.length, 1e-9)
    for step, start in enumerate(layout.starts.tolist()):
        stop = layout.starts[step + 1] * scale - 4 if step + 1 < len(layout.starts) else width * 8
        at = start
        for part, seconds in zip(ORDER, layout.parts[:, step, column].tolist(), strict=True):
            begin, at = at, at + seconds
            if at > begin:
                edges = round(begin * scale), round(min(at * scale, stop))
                if edges[1] > edges[0]:
                    yield part, *edges
