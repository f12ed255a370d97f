"""Charts of the training and of hosts and GPUs: a row for each, with a picture of each run on the same scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tfscale.console.history.gauges import Gauges
from tfscale.console.report.formats.svg_plots import (
    Line,
    Lines,
    Scale,
    furthest_lines,
    highest,
    legend_of,
    lines_over_time,
)
from tfscale.console.report.run_report import RunGroup, RunReport
from tfscale.core.records.training import paired, shown_name
from tfscale.core.text import celsius, data_rate, data_size, four_digits, megahertz, percent, watts

_GAUGES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "gpu": ("GPUs in use", percent),
    "gpu_memory": ("Memory of the GPUs", data_size),
    "gpu_clock": ("Clock of the slowest GPU", megahertz),
    "gpu_power": ("Power of the GPUs", watts),
    "gpu_temperature": ("Temperature of the hottest GPU", celsius),
    "cpu": ("CPUs of the host in use", percent),
    "received": ("Received over all interfaces", data_rate),
    "sent": ("Sent over all interfaces", data_rate),
}
"""Title of each gauge, and the text of its values."""
_SHARES = ("gpu", "cpu")
"""Gauges that go from 0 to 1."""
_MARGIN = 0.05
"""Share of the range of a curve that is left free above and below it."""


@dataclass(frozen=True, slots=True)
class ChartRow:
    """Chart of each run; the pictures of runs without known values are empty."""

    title: str
    pictures: tuple[str, ...]
    legends: tuple[list[tuple[str, str]], ...]
    """(colour, name) of the lines of each picture."""


def gauge_charts(report: RunReport) -> Iterator[ChartRow]:
    """Yield a row for each gauge of hosts and GPUs that is known, with a line for each task."""
    for place, name in enumerate(Gauges._fields):
        title, say = _GAUGES[name]
        lines = [
            furthest_lines(each.gauges.at, each.gauges.subjects, each.gauges.values[place]) for each in report.groups
        ]
        top = 1.0 if name in _SHARES else max(map(highest, lines)) * (1 + _MARGIN)
        yield from _row(report, title, lines, Scale(0.0, top, say))


def training_charts(report: RunReport) -> Iterator[ChartRow]:
    """Yield a row for each number of the training but the epoch; that of a validation is in the row of its number."""
    names = paired(name for group in report.groups for name in group.curves.subjects if name != "epoch")
    for name in names:
        if name.startswith("val_") and name.removeprefix("val_") in names:
            continue
        lines = [_curves(group, (name, f"val_{name}")) for group in report.groups]
        values = np.concatenate([line.values[np.isfinite(line.values)] for each in lines for line in each])
        low, high = float(values.min()), float(values.max())
        margin = _MARGIN * ((high - low) or abs(high) or 1.0)
        yield from _row(report, shown_name(name), lines, Scale(low - margin, high + margin, four_digits))


def _curves(group: RunGroup, names: Sequence[str]) -> Lines:
    curves = group.curves
    known = [name for name in names if name in curves.subjects]
    values = {name: curves.values[0, :, curves.subjects.index(name)] for name in known}
    return [Line(f"{shown_name(name)} of {curves.owners[name]}", curves.at, values[name]) for name in known]


def _row(report: RunReport, title: str, lines: Sequence[Lines], scale: Scale) -> Iterator[ChartRow]:
    if any(lines):
        pictures = [
            lines_over_time(report, group, title, each, scale) for group, each in zip(report.groups, lines, strict=True)
        ]
        yield ChartRow(title, tuple(pictures), tuple(map(legend_of, lines)))
