"""Strip of the first screen: the cluster's figures over time, with what happened on the time axis."""

from __future__ import annotations

from rich.text import Text
from tfscale.console.engine.model import Snapshot, TimelineEntry
from tfscale.console.history.cluster_series import KEPT, ClusterSeries
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.console.tui.widgets.charts.figure_curve import TICKS, Figure, FigureCurve, Sign, curve_lines, means
from tfscale.console.tui.widgets.charts.time_window import TimeWindow, time_window
from tfscale.console.tui.widgets.panes.cluster_metrics import loss
from tfscale.core.text import UNKNOWN, count, percent


def _three_digits(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


_FIGURES = (
    Figure("steps/s", count, "transfer"),
    Figure("efficiency", percent, "compute", top=1.0),
    Figure("loss", _three_digits, "update", begins_at_zero=False),
)
"""Figures in the order of `cluster_series.FIGURES`."""
_GRAVEST = ("critical", "serious", "warning", "info")
"""Severities of which the first one's sign is seen where several share a cell."""


class HistoryStrip(SnapshotWidget):
    """Curves of steps a second, efficiency and loss, those of which something is known, beside each other."""

    def render(self) -> Text:
        snapshot, (width, height) = self.snapshot, self.size
        if snapshot is None or snapshot.history is None or height < 4:
            return Text()
        lines = strip_lines(snapshot, snapshot.history.figures, (width, height), self.appearance)
        return Text("\n", no_wrap=True, overflow="crop").join(lines)


def strip_lines(snapshot: Snapshot, series: ClusterSeries, size: tuple[int, int], appearance: Appearance) -> list[Text]:
    """Draw the strip in `size` cells."""
    width, height = size
    shown = [index for index, is_known in enumerate(series.known) if is_known] or [0]
    across = width // len(shown)
    room = across - 2 - TICKS
    if room < 1:
        return []
    at = int(snapshot.at)
    window = time_window(at if series.first is None else min(series.first, at), at, room * 2, KEPT)
    # A dot is drawn once its seconds are over, so that it keeps its place.
    dots = max(0, at + 1 - window.begin) // window.seconds
    seconds = series.read(window.begin, window.begin + dots * window.seconds)
    values = means(seconds.reshape(len(_FIGURES), dots, window.seconds))
    marks = axis_marks(snapshot.timeline, window, appearance)
    now = count(snapshot.findings.steps_per_second), percent(snapshot.findings.efficiency), loss(snapshot)
    charts = [
        curve_lines(
            FigureCurve(_FIGURES[index], "" if now[index] == UNKNOWN else now[index], values[index]),
            window,
            marks,
            (across if index != shown[-1] else width - across * (len(shown) - 1), height),
            appearance,
        )
        for index in shown
    ]
    return [Text(no_wrap=True).join(parts) for parts in zip(*charts, strict=True)]


def axis_marks(timeline: tuple[TimelineEntry, ...], window: TimeWindow, appearance: Appearance) -> dict[int, Sign]:
    """Return signs of restarts, moves, cuts and findings by cell of the axis; the gravest where several share one."""
    found: dict[int, tuple[int, Sign]] = {}
    for entry in timeline:
        sign, dot = _sign(entry, appearance), window.dot(entry.at)
        if sign is None or dot is None:
            continue
        grade = _GRAVEST.index(entry.severity) if entry.severity in _GRAVEST else len(_GRAVEST)
        known = found.get(dot // 2)
        if known is None or grade <= known[0]:
            found[dot // 2] = grade, (sign, appearance.severity(entry.severity))
    return {cell: mark for cell, (_, mark) in found.items()}


def _sign(entry: TimelineEntry, appearance: Appearance) -> str | None:
    """Return the sign of an event as the rows and the events have it; None for one that is no news of trouble."""
    glyphs = appearance.glyphs
    is_bad = entry.severity in _GRAVEST[:-1]
    match entry.kind:
        case "agent":
            return glyphs.lost if is_bad else None
        case "placement":
            return glyphs.moved
        case "task" | "command" | "policy" | "restart":
            return appearance.sign(entry.severity) if is_bad else glyphs.moving
    return appearance.sign(entry.severity) if is_bad else None
