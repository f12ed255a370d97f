"""The cluster's figures, the bars and the trends: what is drawn is what was measured."""

from __future__ import annotations

from dataclasses import replace

import fakes
import numpy as np
import pytest
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.theme import ASCII, PALETTES, PARTS, Appearance
from tfscale.console.tui.widgets.charts.sparkline import sparklines
from tfscale.console.tui.widgets.charts.step_bar import mean_parts, parts_of, phase_bar
from tfscale.console.tui.widgets.panes.cluster_metrics import efficiency, figures_of, goodput, loss
from tfscale.console.tui.widgets.table.task_columns import USUAL, layout
from tfscale.core.analysis.findings import Findings
from tfscale.core.records import Training


def test_efficiency_is_own_work_over_the_step() -> None:
    cluster = fakes.spec(3)
    healthy, slowed = fakes.healthy_findings(cluster), fakes.straggler_findings(cluster)
    assert efficiency(healthy) == pytest.approx(0.053 / 0.065)
    assert efficiency(slowed) == pytest.approx(0.053 / 0.125)
    assert efficiency(Findings()) is None
    alone = replace(healthy, subjects={"worker:0": healthy.subjects["worker:0"]})
    assert efficiency(alone) is None


def test_goodput_is_the_productive_share_of_all_time() -> None:
    assert goodput(Findings(spent={"productive": 30.0, "start": 6.0, "stragglers": 4.0})) == 0.75
    assert goodput(Findings()) is None


def test_the_loss_is_of_whoever_tells_one_and_nan_is_said() -> None:
    cluster = fakes.spec(2)
    silent, told = (fakes.task_view(cluster, fakes.worker(index)) for index in range(2))
    assert told.frame is not None
    told = replace(told, frame=replace(told.frame, training=Training(loss=0.41234)))
    snapshot = Snapshot(fakes.NOW, "run", None, 1, (silent, told), fakes.healthy_findings(cluster))
    assert loss(snapshot) == "0.4123"
    assert [figure.name for figure in figures_of(snapshot)][:2] == ["steps/s", "examples/s"]
    lost = replace(told, frame=replace(told.frame, training=Training(finite=False)))
    assert loss(replace(snapshot, tasks=(silent, lost))) == "NaN"


@pytest.mark.parametrize("width", [1, 7, 13, 24, 72])
@pytest.mark.parametrize("letters", [False, True])
def test_a_bar_is_as_wide_as_it_should_be_and_as_long_as_its_step(width: int, letters: bool) -> None:
    cluster = fakes.spec(2)
    appearance, background = Appearance(letters=letters), PALETTES["tfscale-dark"].background
    for scale in (0.066, 0.13, 0.5):
        parts = parts_of(fakes.summaries(cluster)["worker:0"])
        segments = phase_bar(parts, scale, width, appearance, background)
        assert sum(len(segment.text) for segment in segments) == width
        empty = sum(len(each.text) for each in segments if not each.text.strip() and _is(each, background))
        assert empty == pytest.approx(width * (1 - 0.065 / scale), abs=1.01)
    assert len(phase_bar({}, 1.0, width, appearance, background)) == 1


def _is(segment: object, background: str) -> bool:
    style = getattr(segment, "style", None)
    return style is not None and style.bgcolor is not None and style.bgcolor.name == background


def test_the_bar_of_a_group_is_the_mean_of_those_that_are_known() -> None:
    found = fakes.summaries(fakes.spec(2), fakes.worker(1))
    parts = mean_parts([*found.values(), None])
    assert list(parts) == list(PARTS)
    assert parts["compute"] == pytest.approx(0.07) and mean_parts([None]) == {}


def test_a_trend_goes_from_its_least_to_its_most_and_what_hardly_moves_is_flat() -> None:
    rising = np.linspace(1, 2, 60, dtype=np.float32)
    flat = np.full(60, 0.072, np.float32) * np.float32(1.001) ** np.arange(60, dtype=np.float32).clip(0, 3)
    begun = np.concatenate([np.full(30, np.nan, np.float32), rising[:30]])
    unknown, nothing = np.full(60, np.nan, np.float32), np.zeros(60, np.float32)
    drawn = sparklines(np.stack([rising, flat, begun, unknown, nothing]), 8, Appearance())
    assert drawn[0] == "▁▂▃▄▅▆▇█"
    assert set(drawn[1]) <= set("▄▅")
    assert drawn[2][:4] == "    " and drawn[2][4] == "▁" and drawn[2][-1] == "█"
    assert drawn[3] == " " * 8 and drawn[4] == "▁" * 8
    assert sparklines(rising[None], 8, Appearance(glyphs=ASCII))[0].isascii()
    assert (
        sparklines(rising[None], 0, Appearance()) == [""]
        and sparklines(np.empty((0, 60), np.float32), 8, Appearance()) == []
    )


@pytest.mark.parametrize("width", [10, 40, 75, 76, 115, 195, 400])
def test_columns_never_take_more_than_there_is(width: int) -> None:
    names, hosts = ["worker:999"], ["a-host-with-quite-a-long-name"]
    placed = layout(width, USUAL, names, hosts)
    assert sum(each.width for each in placed) + 2 * (len(placed) - 1) <= max(width, 50)
    assert placed[0].column.name == "task" and placed[-1].column.name == "flag"


def test_a_column_that_was_asked_for_stays_before_the_usual_ones() -> None:
    names = [each.column.name for each in layout(115, (*USUAL, "heat"), ["worker:0"], ["node"])]
    assert "heat" in names and "host" not in names
