"""Charts of a task's last minutes: phases, step time, GPUs, host, network, training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from textual.reactive import reactive
from tfscale.console.history.history import SECONDS, Seconds
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import LETTERS, PARTS, Appearance
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.console.tui.widgets.charts.area_chart import Area, columns, draw
from tfscale.console.tui.widgets.charts.step_bar import scale_for
from tfscale.core.cluster.task import Task
from tfscale.core.records.training import TRAINING_DISPLAYS, display_of, paired, shown_name
from tfscale.core.text import UNKNOWN, data_rate, data_size, displayed, elapsed, percent, step_time

ZOOMS = (1, 2, 5, 10)
"""Seconds a column."""
_GAP = 2
_LOWEST, _NARROWEST = 3, 26
"""Lines and cells. Smaller charts would be unreadable, so fewer charts are drawn instead."""

FormatValue = Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart with its title, its areas from below, the format of its numbers, and the value of a full column."""

    name: str
    areas: tuple[Area, ...]
    format_value: FormatValue
    top: float | None = None
    """Value of a full column; with None a round number above the largest value."""


class Charts(SnapshotWidget):
    """Charts of one task, as many as fit, the most important first."""

    zoomed: reactive[int | None] = reactive(None)
    """Seconds a column; None is automatic: one second, and two as soon as there is enough history."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._shown_task = task
        self.seconds_a_column = ZOOMS[0]
        """Seconds a column, as drawn."""

    def zoom(self) -> None:
        """Show more time in less detail; after the coarsest zoom, the finest."""
        after = ZOOMS.index(self.seconds_a_column) + 1
        self.zoomed = ZOOMS[after] if after < len(ZOOMS) else None

    def render(self) -> Text:
        snapshot, width, height = self.snapshot, self.size.width, self.size.height
        if snapshot is None or snapshot.history is None or not width or not height:
            return Text()
        history = snapshot.history.seconds(self._shown_task, snapshot.at)
        self.seconds_a_column = self.zoomed or _usual(history, _across(width)[1])
        return _page(list(charts(history, self.seconds_a_column, self.appearance)), width, height, self)


def _across(width: int) -> tuple[int, int]:
    """Return the number of charts beside each other, and the width of each."""
    across = 2 if width >= 2 * _NARROWEST + _GAP else 1
    return across, (width - _GAP * (across - 1)) // across


def _usual(history: Seconds, width: int) -> int:
    """Return the seconds a column that mostly keep a chart full once it has been full."""
    return ZOOMS[0] if _known_seconds(history) < 1.5 * width else ZOOMS[1]


def _known_seconds(history: Seconds) -> int:
    """Return the seconds since the first known value."""
    is_known = ~np.isnan(np.stack([history.step_time, history.gpu, history.cpu, history.received]))
    at = np.flatnonzero(is_known.any(axis=0))
    return is_known.shape[1] - int(at[0]) if len(at) else 0


def _page(charts: list[Chart], width: int, height: int, widget: Charts) -> Text:
    appearance, (across, chart_width) = widget.appearance, _across(width)
    rows = max(1, min(-(-len(charts) // across), (height - 1) // (_LOWEST + 1)))
    lines: list[Text] = []
    room = height - 1
    for row in range(rows):
        high = room // (rows - row)
        room -= high
        cells = [
            _lines(chart, chart_width, high - 1, appearance) for chart in charts[row * across : (row + 1) * across]
        ]
        if cells:
            lines += [Text(" " * _GAP).join(parts) for parts in zip(*cells, strict=True)]
    seconds = min(SECONDS, chart_width * widget.seconds_a_column)
    begin = f"{elapsed(seconds)} ago"
    axis = Text(begin + "now".rjust(max(4, chart_width - len(begin))), style=appearance.palette.dim, no_wrap=True)
    return spelled(Text("\n").join([*lines, axis]), appearance)


def _lines(chart: Chart, width: int, height: int, appearance: Appearance) -> list[Text]:
    """Draw the title and below it the chart."""
    palette = appearance.palette
    total = np.sum([np.nan_to_num(area.values[-width:]) for area in chart.areas], axis=0)
    top = chart.top or scale_for(float(total.max(initial=0.0)))
    title = Text(f"{chart.name} ", style=palette.dim, no_wrap=True)
    title.append(chart.format_value(_newest(chart.areas)), style=f"bold {palette.text}")
    full = chart.format_value(top)
    title.truncate(max(0, width - len(full) - 2))
    title.append(full.rjust(width - title.cell_len), style=palette.dim)
    return [title, *draw(chart.areas, top, width, height, appearance)]


def _newest(areas: Sequence[Area]) -> float | None:
    """Return the sum of each area's newest known value; None if none is known."""
    newest = [area.values[~np.isnan(area.values)][-1:] for area in areas]
    return float(sum(values[0] for values in newest if len(values))) if any(map(len, newest)) else None


def charts(history: Seconds, seconds: int, appearance: Appearance) -> Iterator[Chart]:
    """Return the charts with at least one known number."""
    colours = appearance.palette.parts

    def column(values: NDArray[np.floating]) -> NDArray[np.floating]:
        # The present second is not complete.
        return columns(values, history.at, seconds)

    def single(
        name: str, values: NDArray[np.floating], text: FormatValue, top: float | None = None, colour: str = "transfer"
    ) -> Iterator[Chart]:
        if not np.isnan(values).all():
            yield Chart(name, (Area(colours[colour], "#", column(values)),), text, top)

    # A column begins at 0: numbers below have no place in it.
    numbers = {name: values for name, values in history.training.items() if not (values < 0).any()}

    def number(name: str) -> Iterator[Chart]:
        yield from single(shown_name(name), numbers[name], partial(displayed, display=display_of(name)), colour="host")

    if not np.isnan(history.parts["compute"]).all():
        stack = tuple(Area(colours[part], LETTERS[part], column(history.parts[part])) for part in PARTS)
        yield Chart("phases of a step", stack, step_time)
    yield from single("longest step", history.longest, step_time, colour="update")
    yield from single("GPU", history.gpu, percent, 1.0, "compute")
    yield from single("CPU of the host", history.cpu, percent, 1.0, "compute")
    learning = [name for name in paired(numbers) if name == "loss" or name not in TRAINING_DISPLAYS]
    for name in learning:
        yield from number(name)
    yield from single("received", history.received, data_rate)
    yield from single("sent", history.sent, data_rate)
    yield from single("GPU clock", history.gpu_clock, _hertz, colour="compute")
    yield from single("GPU temperature", history.gpu_temperature, _celsius, 100.0, "input")
    yield from single("GPU power", history.gpu_power, _watts, colour="input")
    yield from single("GPU memory", history.gpu_memory, data_size, colour="compute")
    for name in numbers:
        if name not in learning:
            yield from number(name)


def _hertz(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value / 1e6:.0f} MHz"


def _celsius(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} °C"


def _watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} W"
