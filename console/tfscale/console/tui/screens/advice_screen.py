"""Advice: the cluster's limits, the remedies with their gains, and the forecast for more workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static
from tfscale.console.advice.advice_record import LEGEND, record_of
from tfscale.console.advice.present_load import load_of_snapshot
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.recommendations import Recommendations, recommend, speedup
from tfscale.console.analysis.run.remedies import MOSTLY
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.scaling_chart import draw
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_summary import Title
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.core.comparison.published_speedups import nearest_published
from tfscale.core.records.diagnosis import Diagnosis, Remedy
from tfscale.core.text import step_time

_WIDE = 150
"""Cells from which on text and chart stand beside each other."""
_CULPRITS = 5
_CAVEAT = (
    "  A model, from this one size: a ring {collective} takes {transfer} of a step. The lower edge is all of it "
    "latency, the upper one all bytes. It knows neither farther links nor slower workers; recorded runs of three sizes "
    "make a measured forecast (tfscale-console report)."
)
KEYS = (("esc", "back"), ("j k", "scroll"), ("e", "events"), ("v", "steps"), ("?", "help"))


class AdviceScreen(SnapshotScreen):
    """Page of remedies, each gain with the model behind it."""

    DEFAULT_CSS = """
    AdviceScreen { background: $background; padding: 0 1; }
    AdviceScreen Title, AdviceScreen KeyBar { height: 1; }
    AdviceScreen Headline { height: auto; max-height: 3; margin: 1 0; }
    AdviceScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
    AdviceScreen Static { height: auto; }
    AdviceScreen.wide VerticalScroll { layout: horizontal; }
    AdviceScreen.wide #words { width: 1fr; margin: 0 4 0 0; }
    AdviceScreen.wide #scaling { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,A", "app.pop_screen", "back", show=False),
        Binding("j,down", "scroll(1)", "down", show=False),
        Binding("k,up", "scroll(-1)", "up", show=False),
        Binding("pagedown", "scroll(15)", "15 lines down", show=False),
        Binding("pageup", "scroll(-15)", "15 lines up", show=False),
    ]

    def __init__(self, snapshot: Snapshot | None, appearance: Appearance) -> None:
        super().__init__(snapshot, appearance)
        self.words = Static(id="words", markup=False)
        self.scaling = Static(id="scaling", markup=False)

    @property
    def page(self) -> str:
        return "advice"

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        yield Title().data_bind(**bound)
        yield Headline().data_bind(**bound)
        with VerticalScroll(can_focus=False):
            yield self.words
            yield self.scaling
        yield KeyBar(KEYS).data_bind(SnapshotScreen.appearance)

    def on_mount(self) -> None:
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        if self.snapshot is None:
            return
        load, is_wide = load_of_snapshot(self.snapshot), self.size.width >= _WIDE
        self.set_class(is_wide, "wide")
        room = (self.size.width - 3) // 2 - 4 if is_wide else self.size.width - 3
        words = Text("\n").join(_words(recommend(self.snapshot.findings, load), load, room, self.appearance))
        self.words.update(spelled(words, self.appearance))
        width = (self.size.width - 6) // 2 if is_wide else min(self.size.width - 3, 100)
        curve = Text("\n").join(_scaling(load, width, is_wide, self.appearance))
        self.scaling.update(spelled(curve, self.appearance))

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def _title(text: str, appearance: Appearance) -> Text:
    return Text(text, style=f"bold {appearance.palette.text}", no_wrap=True)


def _words(recommendations: Recommendations, load: Load | None, width: int, appearance: Appearance) -> Iterator[Text]:
    if recommendations.culprits:
        yield _title("First, what is wrong", appearance)
        for diagnosis in recommendations.culprits[:_CULPRITS]:
            yield from _finding(diagnosis, width, appearance)
        if (more := len(recommendations.culprits) - _CULPRITS) > 0:
            yield Text(f"  and {more} more: e shows all", style=appearance.palette.dim)
        yield Text()
    yield _title("What limits it", appearance)
    for limit in recommendations.limits:
        yield from _finding(limit, width, appearance)
    if not recommendations.limits:
        yield Text(f"  {recommendations.not_judged or 'nothing is at its limit'}", style=appearance.palette.dim)
    yield Text()
    yield _title("What would help", appearance)
    yield from _what_if(recommendations, load, width, appearance)


def _finding(diagnosis: Diagnosis, width: int, appearance: Appearance) -> Iterator[Text]:
    text = Text(f"{appearance.sign(diagnosis.severity)} ", style=appearance.severity(diagnosis.severity))
    text.append(diagnosis.statement or diagnosis.sentence, style=appearance.palette.text)
    yield from wrap_hanging(text, width, 2)
    todo = first_step(diagnosis) if diagnosis.kind != "saturation" else None
    if todo is not None:
        yield from wrap_hanging(Text(f"  {todo}", style=appearance.severity("good")), width, 2)


def _what_if(recommendations: Recommendations, load: Load | None, room: int, appearance: Appearance) -> Iterator[Text]:
    if load is None and not recommendations.remedies:
        yield Text(
            "  no gain is estimated: models are for an all-reduce whose phases are all measured",
            style=appearance.palette.dim,
        )
        return
    width = max((len(remedy.what) for remedy in recommendations.remedies), default=0)
    if recommendations.remedies:
        yield Text(f"  {'':<{width}}  throughput   by the model", style=appearance.palette.dim, no_wrap=True)
    for remedy in recommendations.remedies:
        yield from wrap_hanging(_remedy(remedy, width, appearance), room, width + 17)
    if any(record_of(remedy.model) for remedy in recommendations.remedies):
        yield Text(f"  {LEGEND}", style=appearance.palette.dim)
    if not recommendations.remedies:
        yield Text("  nothing that a model knows of would bring half a percent", style=appearance.palette.dim)
    for name in recommendations.unproven:
        yield Text(f"  {name:<{width}}   no model says how much", style=appearance.palette.dim)


def _remedy(remedy: Remedy, width: int, appearance: Appearance) -> Text:
    palette, gain = appearance.palette, (remedy.gain or 1.0) - 1.0
    sign = "<=" if remedy.at_most else "  "
    line = Text(f"  {remedy.what:<{width}}  ", style=palette.text)
    line.append(f"{sign} {gain:>+7.0%}   ", style=f"bold {palette.text}")
    record = record_of(remedy.model)
    return line.append(f"{remedy.model}{f'; {record.short}' if record else ''}", style=palette.dim)


def _scaling(load: Load | None, width: int, is_tall: bool, appearance: Appearance) -> Iterator[Text]:
    curve = speedup(load) if load else None
    if load is None or curve is None:
        return
    if not is_tall:
        yield Text()
    yield _title("What more workers would bring", appearance)
    yield from draw(curve, load.ranks, 2 * load.ranks, width, 20 if is_tall else 14, appearance)
    for size in (load.ranks, 2 * load.ranks):
        forecast = curve(size)
        line = Text(f"  {size:,} workers: ", style=appearance.palette.dim)
        line.append(f"{_range(forecast.low, forecast.high, 'x')} one alone", style=f"bold {appearance.palette.text}")
        efficiency = _range(100 * forecast.low / size, 100 * forecast.high / size, "%")
        yield line.append(f", {efficiency} of the ideal", style=appearance.palette.dim)
    collective = "all-reduce" if load.gathered_volume < MOSTLY else "all-gather"
    caveat = _CAVEAT.format(collective=collective, transfer=step_time(load.transfer))
    yield from wrap_hanging(Text(caveat, style=appearance.palette.dim), width, 2)
    point = nearest_published(max(1, load.ranks))
    published = f"{point.name}: {_range(point.low, point.high, 'x')} on {point.workers}"
    yield Text(f"  Published of a similar size: {published}.", style=appearance.palette.dim)


def _range(low: float, high: float, unit: str) -> str:
    least, most = (f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in (low, high))
    return f"{least}{unit}" if least == most else f"{least} to {most}{unit}"
