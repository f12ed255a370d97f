"""Charts of a task's last minutes beside its peers: phases, step time, GPUs, host, network, training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from textual.reactive import reactive
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.task_peers import peers_of
from tfscale.console.history.history import SECONDS, Seconds
from tfscale.console.history.peer_bands import HIGH, LOW, PeerBands, measures_of
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import LETTERS, PARTS
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.console.tui.widgets.charts.area_chart import Area
from tfscale.console.tui.widgets.charts.area_chart import draw as draw_areas
from tfscale.console.tui.widgets.charts.step_bar import scale_for
from tfscale.console.tui.widgets.peers.band_chart import BAND_LETTER, LINE_LETTER, Curve, Moments
from tfscale.console.tui.widgets.peers.band_chart import draw as draw_curve
from tfscale.console.tui.widgets.peers.chart_scene import Scene, newest_finding
from tfscale.console.tui.widgets.peers.task_measures import Leaders, Measure, known_measures
from tfscale.core.cluster.task import Task
from tfscale.core.text import clock, elapsed, plural, step_time

ZOOMS = (1, 2, 5, 10)
"""Seconds a column."""
_GAP = 2
_LOWEST, _NARROWEST = 3, 26
"""Lines and cells. Smaller charts would be unreadable, so fewer charts are drawn instead."""
_PHASES = Measure("phases", "phases of a step", step_time)
"""Chart of all parts of a step, above each other."""
_UNREPORTED = 1.0
"""Seconds before now of which not all tasks have reported their steps: each reports once a second."""
_OLD = 10
"""Age in seconds from which on a newest value is told with its time."""
_UNTIL_MORE = 0.05
"""Seconds until more of the band is read, of which a key must not wait for the whole."""


class Charts(SnapshotWidget):
    """Charts of one task, as many as fit: first what differs most from its peers, then the most important."""

    zoomed: reactive[int | None] = reactive(None)
    """Seconds a column; None is automatic: one second, and two as soon as there is enough history."""
    moment: reactive[int | None] = reactive(None)
    """Unix second at which the cursor reads the charts; None: they say the newest values."""

    def __init__(self, task: Task, moment: float | None = None) -> None:
        super().__init__()
        self.set_reactive(Charts.moment, None if moment is None else int(moment))
        self._shown_task = task
        self._bands: PeerBands | None = None
        self._leaders = Leaders()
        self.seconds_a_column = ZOOMS[0]
        """Seconds a column, as drawn."""

    def zoom(self) -> None:
        """Show more time in less detail; after the coarsest zoom, the finest."""
        after = ZOOMS.index(self.seconds_a_column) + 1
        self.zoomed = ZOOMS[after] if after < len(ZOOMS) else None

    def move(self, by: int) -> None:
        """Move the cursor by columns; at first it is at the newest."""
        if self.snapshot is not None and self.size.width:
            back = max(0, min(_across(self.size.width)[1] - 1, (self._cursor() or 0) - by))
            self.moment = (self._newest() - back) * self.seconds_a_column

    def _newest(self) -> int:
        """Return the number of the newest column."""
        return 0 if self.snapshot is None else (int(self.snapshot.at - _UNREPORTED) - 1) // self.seconds_a_column

    def _column_of(self, at: float) -> int | None:
        """Return the column of a moment, counted from the newest; None beyond the page."""
        back = self._newest() - int(at) // self.seconds_a_column
        return back if 0 <= back < _across(self.size.width)[1] else None

    def _cursor(self) -> int | None:
        return None if self.moment is None else self._column_of(self.moment)

    def render(self) -> Text:
        snapshot, (across, width) = self.snapshot, _across(self.size.width)
        if snapshot is None or snapshot.history is None or width <= 0 or not self.size.height:
            return Text()
        seconds = snapshot.history.seconds(self._shown_task, snapshot.at - _UNREPORTED)
        self.seconds_a_column = self.zoomed or self._usual(seconds, width)
        scene = self._scene(snapshot, seconds, width)
        if self.moment is None:  # charts that are being read keep their places
            self._leaders.follow(scene.own, scene.bands)
        charts = list(_in_order(_charts(scene, seconds), self._leaders.keys))
        lines = _grid(charts, scene, across, width, self.size.height - 2)
        axis = Text(" " * _GAP).join([_axis(scene, width)] * (across if len(charts) > 1 else 1))
        page = Text("\n", no_wrap=True, overflow="crop").join(
            [self._head(scene, snapshot.at, bool(charts)), *lines, axis]
        )
        return spelled(page, self.appearance)

    def _usual(self, seconds: Seconds, width: int) -> int:
        """Return the seconds a column that mostly keep a chart full once it has been full, and show the cursor."""
        usual = ZOOMS[0] if _known_seconds(seconds) < 1.5 * width else ZOOMS[1]
        back = 0 if self.moment is None else int(seconds.at[-1]) - self.moment
        return next((zoom for zoom in ZOOMS if zoom >= usual and back < (width - 1) * zoom), usual)

    def _scene(self, snapshot: Snapshot, seconds: Seconds, width: int) -> Scene:
        peers = peers_of(snapshot, self._shown_task)
        known = self._bands
        assert snapshot.history is not None
        if known is None or known.history is not snapshot.history or known.peers != peers.tasks:
            known = self._bands = PeerBands(snapshot.history, peers.tasks)
        span = min(SECONDS, width * self.seconds_a_column + self.seconds_a_column)
        bands = known.read(snapshot.at - _UNREPORTED, span)
        if not known.is_whole(span):
            self.set_timer(_UNTIL_MORE, self.refresh)
        finding = newest_finding(snapshot, self._shown_task)
        return Scene(
            own=measures_of(seconds),
            bands=bands,
            at=seconds.at,
            peers=peers,
            zoom=self.seconds_a_column,
            finding=finding,
            cursor=self._cursor(),
            appearance=self.appearance,
        )

    def _head(self, scene: Scene, now: float, has_charts: bool) -> Text:
        """Return the line about the peers, and about the moment that is read."""
        palette, peers = self.appearance.palette, scene.peers
        line = Text(no_wrap=True, overflow="ellipsis")
        if self.moment is not None:
            before = f"{elapsed(now - self.moment)} before now"
            where = before if scene.cursor is not None else f"{before}: no longer in these charts"
            line.append(f"{clock(self.moment)}, {where}   ", style=f"bold {palette.text}")
        if not has_charts:
            return line.append("nothing measured so far", style=palette.dim)
        if peers.why_none:
            return line.append(f"without peers: {peers.why_none}", style=palette.dim)
        is_fine = self.appearance.glyphs.eighths and not self.appearance.letters
        line.append(f"{self._shown_task} ", style=palette.dim)
        line.append("⠒⠒" if is_fine else LINE_LETTER * 2, style=palette.parts["transfer"])
        peer = str(peers.tasks[0]) if len(peers.tasks) == 1 else f"its {plural(len(peers.tasks), 'peer')}"
        line.append(f"   {peer} ", style=palette.dim)
        line.append("⣿⣿" if is_fine else BAND_LETTER * 2, style=palette.dim)
        return line.append("" if len(peers.tasks) == 1 else " (p10 to p90)", style=palette.dim)


def _across(width: int) -> tuple[int, int]:
    """Return the number of charts beside each other, and the width of each."""
    across = 2 if width >= 2 * _NARROWEST + _GAP else 1
    return across, (width - _GAP * (across - 1)) // across


def _known_seconds(seconds: Seconds) -> int:
    """Return the seconds since the first known value."""
    is_known = ~np.isnan(np.stack([seconds.step_time, seconds.gpu, seconds.cpu, seconds.received]))
    at = np.flatnonzero(is_known.any(axis=0))
    return is_known.shape[1] - int(at[0]) if len(at) else 0


def _charts(scene: Scene, seconds: Seconds) -> Iterator[Measure]:
    """Yield the charts with a known number: that of all parts of a step, and the measures."""
    if not np.isnan(seconds.parts["compute"]).all():
        yield _PHASES
    yield from known_measures(scene.own, tuple(seconds.training), with_parts=bool(scene.bands))


def _in_order(charts: Iterable[Measure], leading: Sequence[str]) -> Sequence[Measure]:
    """Return the charts, those that lead first."""
    return sorted(charts, key=lambda each: leading.index(each.key) if each.key in leading else len(leading))


def _grid(charts: Sequence[Measure], scene: Scene, across: int, width: int, room: int) -> list[Text]:
    """Draw as many charts as fit into `room` lines."""
    rows = max(1, min(-(-len(charts) // across), room // (_LOWEST + 1)))
    lines: list[Text] = []
    for row in range(rows):
        height = room // (rows - row)
        room -= height
        beside = [_lines(chart, scene, width, height - 1) for chart in charts[row * across : (row + 1) * across]]
        lines += [Text(" " * _GAP).join(parts) for parts in zip(*beside, strict=True)]
    return lines


def _lines(measure: Measure, scene: Scene, width: int, height: int) -> list[Text]:
    """Draw the title and below it the chart."""
    if measure is _PHASES:
        return _phases(scene, width, height)
    curve = scene.curve(measure.key)
    low, high = curve.scale(width, measure.top)
    colour = scene.appearance.palette.parts[measure.colour]
    moments = Moments(scene.onset, scene.onset_colour, scene.cursor)
    title = _title(measure, scene, curve, measure.format_value(high) if low == 0 else _span(measure, low, high), width)
    return [title, *draw_curve(curve, (low, high), (width, height), colour, moments, scene.appearance)]


def _phases(scene: Scene, width: int, height: int) -> list[Text]:
    colours = scene.appearance.palette.parts
    areas = tuple(Area(colours[part], LETTERS[part], scene.curve(part).line) for part in PARTS)
    total = np.sum([np.nan_to_num(area.values) for area in areas], axis=0)
    total[np.isnan([area.values for area in areas]).all(axis=0)] = np.nan
    top = scale_for(float(np.nan_to_num(total[-width:]).max(initial=0.0)))
    title = _title(_PHASES, scene, Curve(total, None), step_time(top), width)
    return [title, *draw_areas(areas, top, width, height, scene.appearance)]


def _title(measure: Measure, scene: Scene, curve: Curve, scale: str, width: int) -> Text:
    """Return name, value and band of a chart, newest or at the cursor, and at the right its scale."""
    palette, back = scene.appearance.palette, scene.cursor
    if back is None:
        known = np.flatnonzero(~np.isnan(curve.line))
        back = len(curve.line) - 1 - int(known[-1]) if len(known) else 0
    title = Text(f"{measure.title} ", style=palette.dim, no_wrap=True)
    title.append(measure.format_value(_read(curve.line, back)), style=f"bold {palette.text}")
    if curve.band is not None:
        low, high = (_read(curve.band[place], back) for place in (LOW, HIGH))
        name = "peer" if len(scene.peers.tasks) == 1 else "peers"
        title.append(f"  {name} {_span(measure, low, high)}", style=palette.dim)
    if scene.cursor is None and back * scene.zoom >= _OLD:
        title.append(f"  at {clock(scene.begin_of(back))}", style=palette.dim)
    room = width - title.cell_len
    if room < len(scale) + 2:  # the curve is read by its numbers, not by its scale
        title.truncate(width, overflow="ellipsis")
        return title.append(" " * max(0, room))
    return title.append(scale.rjust(room), style=palette.dim)


def _span(measure: Measure, low: float | None, high: float | None) -> str:
    """Return two values with their unit once, one where they look the same."""
    least, most = map(measure.format_value, (low, high))
    number, _, unit = least.rpartition(" ")
    return most if least == most else f"{number if number and most.endswith(f' {unit}') else least} to {most}"


def _read(values: NDArray[np.floating], back: int) -> float | None:
    """Return the value of the column that is `back` columns before the newest."""
    value = float(values[-1 - back]) if back < len(values) else math.nan
    return None if math.isnan(value) else value


def _axis(scene: Scene, width: int) -> Text:
    """Return the line of times below a chart: its begin, its end, the marked moments."""
    palette = scene.appearance.palette
    shown = min(SECONDS, width * scene.zoom)
    texts: list[tuple[int, str, str]] = []
    if scene.cursor is not None:
        texts.append((width - 1 - scene.cursor, clock(scene.begin_of(scene.cursor)), f"bold {palette.text}"))
    if scene.finding is not None and scene.onset is not None and scene.onset < width:
        texts.append((width - 1 - scene.onset, f"since {clock(scene.finding.begin)}", scene.onset_colour))
    texts += [(width, "now", palette.dim), (0, f"{elapsed(shown)} ago", palette.dim)]
    placed: list[tuple[int, str, str]] = []
    for middle, words, look in texts:
        begin = max(0, min(width - len(words), middle - len(words) // 2))
        if all(begin + len(words) < other or begin > other + len(said) for other, said, _ in placed):
            placed.append((begin, words, look))
    line = Text(no_wrap=True)
    for begin, words, look in sorted(placed):
        line.append(" " * (begin - len(line.plain))).append(words, style=look)
    return line.append(" " * (width - len(line.plain)))
