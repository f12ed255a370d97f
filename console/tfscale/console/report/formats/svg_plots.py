"""Plots as inline SVG, without a script and without anything from the network.

Colours are Okabe and Ito's, which colour-blind people can tell apart; every mark has an explaining title. Phases have
those of the screens on a light background.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.phases import medians
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.console.report.measured_scaling import MeasuredScaling
from tfscale.console.report.run_report import RunGroup, RunReport
from tfscale.console.report.timelines import PARTS
from tfscale.core.text import duration

Floats = NDArray[np.float64]

COLOURS = {
    "update": "#b5588c",
    "host": "#e3d400",
    "input": "#c87800",
    "compute": "#009e73",
    "transfer": "#0072b2",
    "wait": "#d5d9de",
}
SEVERITY = {"info": "#56B4E9", "warning": "#E69F00", "serious": "#D55E00", "critical": "#B2182B"}
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
WIDTH, HEIGHT = 900, 260
LEFT, RIGHT, TOP, BOTTOM = 70, 34, 10, 34
MOST_LINES = 16
"""Largest number of workers with a line each; of more workers, only those furthest from the median."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Position of numbers on the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float = HEIGHT

    def across(self, value: float) -> float:
        low, high = self.x
        return LEFT + (value - low) / ((high - low) or 1.0) * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        low, high = self.y
        return self.height - BOTTOM - (value - low) / ((high - low) or 1.0) * (self.height - TOP - BOTTOM)

    def path(self, xs: Floats, ys: Floats) -> str:
        """Return a line with a gap wherever a value is unknown."""
        parts, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if not math.isfinite(y):
                pen = "M"
                continue
            parts.append(f"{pen}{self.across(x):.1f} {self.up(y):.1f}")
            pen = "L"
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Scale:
    """Vertical axis: the values of its ends, and the text of a value."""

    low: float
    high: float
    say: Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Line:
    """Line of a plot: (k,) times and values, NaN unknown, at least one of them known."""

    name: str
    at: Floats
    values: Floats


Lines = Sequence[Line]


def ticks(low: float, high: float, largest: int = 5) -> list[float]:
    """Return round numbers from low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / largest
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * 0.999)
    return [step * multiple for multiple in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def steps_by_phase(report: RunReport, group: RunGroup) -> str:
    """Draw the median worker's step over time, its parts on top of each other."""
    parts, at = group.timeline.values, group.timeline.at
    if parts.size == 0:
        return ""
    stacked = _stacked(parts)
    top = max(float(_stacked(each.timeline.values)[-1].max(initial=0.0)) for each in report.groups)
    axes = Axes(_time_range(report, group), (0.0, top * 1.05))
    areas = []
    for row, part in enumerate(PARTS):
        outline = axes.path(at, stacked[row + 1]) + axes.path(at[::-1], stacked[row][::-1]).replace("M", "L", 1) + "Z"
        areas.append(f'<path d="{outline}" fill="{COLOURS[part]}"><title>{part}</title></path>')
    return _picture("".join(areas) + _frame(report, axes), f"steps by phase {group.name}", HEIGHT)


def per_worker(report: RunReport, group: RunGroup) -> str:
    """Draw each worker's own part of the step (its lag: all but the all-reduce) over time."""
    lines = _lags(group)
    top = max(highest(_lags(each)) for each in report.groups)
    return lines_over_time(report, group, "time of each worker", lines, Scale(0.0, top * 1.05, duration))


def worker_legend(group: RunGroup) -> list[tuple[str, str]]:
    """Return (colour, name) of the lines of `per_worker`."""
    return legend_of(_lags(group))


def _lags(group: RunGroup) -> Lines:
    timeline = group.timeline
    return furthest_lines(timeline.at, timeline.subjects, timeline.values[:4].sum(axis=0))


def lines_over_time(report: RunReport, group: RunGroup, name: str, lines: Lines, scale: Scale) -> str:
    """Draw lines over the time of a run; empty where nothing is known."""
    if not lines:
        return ""
    axes = Axes(_time_range(report, group), (scale.low, scale.high))
    drawn = []
    for number, line in enumerate(lines):
        style = f'stroke="{_LINES[number % len(_LINES)]}"' + (
            ' stroke-dasharray="5 3"' if number >= len(_LINES) else ""
        )
        path, title = axes.path(line.at, line.values), escape(line.name)
        drawn.append(f'<path d="{path}" fill="none" stroke-width="1.5" {style}><title>{title}</title></path>')
    return _picture("".join(drawn) + _frame(report, axes, scale.say), f"{name} {group.name}", HEIGHT)


def legend_of(lines: Lines) -> list[tuple[str, str]]:
    """Return (colour, name) of each line."""
    return [(_LINES[number % len(_LINES)], line.name) for number, line in enumerate(lines)]


def furthest_lines(at: Floats, names: Sequence[str], values: Floats) -> Lines:
    """Return the lines of (k, n) values with a known value, at most `MOST_LINES`, those furthest from the median."""
    known = np.flatnonzero(np.isfinite(values).any(axis=0))
    return [Line(names[known[column]], at, values[:, known[column]]) for column in _furthest(values[:, known])]


def highest(lines: Lines) -> float:
    """Return the highest value of the lines, 0 where none is known."""
    return max((float(line.values[np.isfinite(line.values)].max()) for line in lines), default=0.0)


def events(report: RunReport, group: RunGroup) -> str:
    """Draw a bar for each diagnosis, from its beginning to its end."""
    own = group.findings
    if not own or not group.end > group.begin:
        return ""
    height = TOP + BOTTOM + 22 * len(own)
    axes = Axes(_time_range(report, group), (0.0, 1.0), height)
    bars = []
    for row, finding in enumerate(own):
        event = finding.diagnosis
        left = axes.across(max(event.begin, group.begin))
        width = max(3.0, axes.across(min(event.end if event.end is not None else group.end, group.end)) - left)
        top = TOP + 22 * row
        label = f"{event.kind} {names_of(finding.subjects)}"
        anchor, x = ("start", left + 4) if left < WIDTH * 0.7 else ("end", left - 4)
        bars.append(
            f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="18" rx="2" fill="{SEVERITY[event.severity]}" '
            f'fill-opacity="0.55"><title>{escape(event.sentence)}</title></rect>'
            f'<text x="{x:.1f}" y="{top + 13}" text-anchor="{anchor}">{escape(label)}</text>'
        )
    return _picture("".join(bars) + _time_axis(report, axes), f"events {group.name}", height)


def scaling(group: RunGroup) -> str:
    """Draw throughput relative to one worker over the number of workers: the forecast's band, and the ideal."""
    if not group.scaling:
        return ""
    sizes = np.array([forecast.workers for forecast in group.scaling])
    low, high = (np.array([getattr(forecast, name) for forecast in group.scaling]) for name in ("low", "high"))
    largest = float(sizes.max())
    axes = Axes((0.0, largest), (0.0, largest))
    band = axes.path(sizes, high) + axes.path(sizes[::-1], low[::-1]).replace("M", "L", 1) + "Z"
    ideal = np.array([0.0, largest])
    parts = [
        f'<path d="{axes.path(ideal, ideal)}" class="ideal"><title>ideal</title></path>',
        f'<path d="{band}" fill="#0072B2" fill-opacity="0.25"><title>ring model</title></path>',
        f'<path d="{axes.path(sizes, high)}" fill="none" stroke="#0072B2"/>',
        f'<path d="{axes.path(sizes, low)}" fill="none" stroke="#0072B2"/>',
    ]
    for tick in ticks(0.0, largest):
        parts.append(_tick_below(axes, tick, f"{tick:.4g}"))
        parts.append(_tick_left(axes, tick, f"{tick:.4g}x"))
    return _picture("".join(parts), f"scaling {group.name}", HEIGHT)


def measured_scaling(measured: MeasuredScaling) -> str:
    """Draw the measured throughputs, the ideal, and the forecast with its band."""
    workers, rates = (np.array(column, dtype=float) for column in zip(*measured.measured, strict=True))
    prediction = measured.forecast
    largest = float(prediction.workers if prediction else workers[-1])
    ideal = np.array([0.0, largest * rates[0] / workers[0]])
    axes = Axes(
        (0.0, largest * 1.02), (0.0, max(ideal[1], prediction.high if prediction else 0.0, float(rates.max())) * 1.05)
    )
    parts = [
        f'<path d="{axes.path(np.array([0.0, largest]), ideal)}" class="ideal"><title>ideal</title></path>',
        f'<path d="{axes.path(workers, rates)}" fill="none" stroke="#0072B2" stroke-width="1.5"/>',
    ]
    for size, rate in measured.measured:
        title = f"<title>{size} workers: {rate:.4g} {measured.unit}</title>"
        parts.append(
            f'<circle cx="{axes.across(size):.1f}" cy="{axes.up(rate):.1f}" r="4" fill="#0072B2">{title}</circle>'
        )
    if prediction:
        x, title = f"{axes.across(prediction.workers):.1f}", "<title>forecast</title>"
        band = f'y1="{axes.up(prediction.low):.1f}" y2="{axes.up(prediction.high):.1f}"'
        parts.append(f'<line x1="{x}" x2="{x}" {band} stroke="#D55E00" stroke-width="3"/>')
        parts.append(
            f'<circle cx="{x}" cy="{axes.up(prediction.throughput):.1f}" r="4" fill="#D55E00">{title}</circle>'
        )
    parts += [_tick_below(axes, tick, f"{tick:.4g}") for tick in ticks(*axes.x)]
    parts += [_tick_left(axes, tick, f"{tick:.4g}") for tick in ticks(*axes.y)]
    return _picture("".join(parts), "measured scaling", HEIGHT)


def _furthest(lag: Floats) -> list[int]:
    """Return the columns of at most `MOST_LINES` workers, in their order."""
    if lag.shape[1] <= MOST_LINES:
        return list(range(lag.shape[1]))
    level = np.array([np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else 0.0 for column in lag.T])
    away = np.abs(level - np.median(level))
    return sorted(int(column) for column in np.argsort(-away, kind="stable")[:MOST_LINES])


def _stacked(parts: Floats) -> Floats:
    """Return (parts + 1, k): the edges of the median worker's parts on top of each other."""
    middle = np.nan_to_num(medians(parts, axis=2)) if parts.size else np.zeros((len(PARTS), 0))
    return np.vstack([np.zeros(middle.shape[1]), np.cumsum(middle, axis=0)])


def _time_range(report: RunReport, group: RunGroup) -> tuple[float, float]:
    """Return the times at both ends of a plot: those of several runs are equally long, so that they compare."""
    return group.begin, group.begin + report.longest


def _frame(report: RunReport, axes: Axes, say: Callable[[float], str] = duration) -> str:
    return "".join(_tick_left(axes, tick, say(tick)) for tick in ticks(*axes.y)) + _time_axis(report, axes)


def _time_axis(report: RunReport, axes: Axes) -> str:
    low, high = axes.x
    times = [low + (high - low) * sixth / 6 for sixth in range(7)]
    return "".join(_tick_below(axes, at, report.tick(at, low)) for at in times)


def _tick_left(axes: Axes, value: float, label: str) -> str:
    y = axes.up(value)
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
    return f'{line}<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'


def _tick_below(axes: Axes, value: float, label: str) -> str:
    x, y = axes.across(value), axes.height - BOTTOM + 16
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(label)}</text>'


def _picture(marks: str, name: str, height: float) -> str:
    label = escape(name.strip())
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}">{marks}</svg>'


def goodput_bar(shares: Sequence[tuple[str, float]]) -> str:
    """Draw one bar of (bucket, share); the shares add up to 1."""
    x, parts = 0.0, []
    for number, (bucket, share) in enumerate(shares):
        width = share * WIDTH
        colour = _LINES[number % len(_LINES)]
        title = f"{bucket} {share:.1%}"
        parts.append(
            f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="26" fill="{colour}"><title>{title}</title></rect>'
        )
        x += width
    return _picture("".join(parts), "goodput", 26)


def goodput_legend(shares: Sequence[tuple[str, float]]) -> list[tuple[str, str]]:
    """Return (colour, name) of the bar's parts."""
    return [(_LINES[number % len(_LINES)], f"{bucket} {share:.1%}") for number, (bucket, share) in enumerate(shares)]
