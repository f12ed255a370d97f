"""Strip of the cluster's figures over time: what it draws is what was said then, at its place on the clock."""

from __future__ import annotations

from dataclasses import replace

import fakes
import numpy as np
import pytest
from simulated_runs import simulated
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.history.cluster_series import KEPT, ClusterSeries
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.widgets.appearance.theme import ASCII, Appearance
from tfscale.console.tui.widgets.charts.time_window import time_window
from tfscale.console.tui.widgets.panes.history_strip import axis_marks, strip_lines
from tfscale.core.text import clock

PLAIN = Appearance(glyphs=ASCII, letters=True)


def watched(seconds: int, workers: int, *faults: str) -> list[Snapshot]:
    state, snapshots = states(simulated_spec(workers))(), []
    for event in simulated(seconds, workers, *faults):
        state.fold(event)
        if isinstance(event, SecondPassed):
            snapshots.append(state.snapshot(event.at))
    return snapshots


def drawn(snapshot: Snapshot, width: int = 120, height: int = 7, appearance: Appearance = PLAIN) -> list[str]:
    assert snapshot.history is not None
    lines = strip_lines(snapshot, snapshot.history.figures, (width, height), appearance)
    assert {line.cell_len for line in lines} == {width} and len(lines) == height
    return [line.plain for line in lines]


@pytest.mark.parametrize("count", [38, 76, 220, 560])
def test_the_axis_holds_all_until_it_is_coarsest_and_then_loses_its_oldest_quarter(count: int) -> None:
    begins, before = set(), None
    for at in (*range(1_000, 1_600), *range(1_600, 1_000 + 12 * 3600, 7)):
        window = time_window(1_000, at, count, KEPT)
        assert window.begin <= at < window.end and window.begin % window.seconds == 0
        assert window.seconds * count <= KEPT or window.seconds == 1
        if before is not None and window.seconds == before.seconds:
            assert window.begin in (before.begin, before.begin + window.seconds * -(-count // 4))
        begins.add(window.begin)
        before = window
    assert before is not None and before.seconds * count > KEPT / 3
    assert len(begins) < 12 * 3600 / (before.seconds * count / 4) + 10, "the axis moves seldom"


@pytest.mark.parametrize("width", [52, 118])
def test_a_figure_of_each_second_is_drawn_also_in_the_second_in_which_the_axis_is_full(width: int) -> None:
    last, series = watched(2, 2)[-1], ClusterSeries()
    begin = int(last.at)
    for second in range(400):
        series.add(begin + second, 7.0, 0.5, 1.0)
        lines = strip_lines(replace(last, at=begin + second + 0.5), series, (width, 7), Appearance())
        assert {line.cell_len for line in lines} == {width}


def test_an_hour_is_kept_and_what_is_not_known_is_not_zero() -> None:
    series = ClusterSeries()
    assert series.first is None and not series.known.any()
    for second in range(5_000):
        series.add(1e9 + second + 0.3, float(second), None, np.nan if second < 10 else 1e300)
    assert series.first == 10**9 and series.known.tolist() == [True, False, False]
    steps, efficiency, loss = series.read(10**9 + 1_000, 10**9 + 5_100)
    assert np.isnan(steps[: 5_000 - KEPT - 1_000]).all() and np.isnan(steps[4_000:]).all()
    assert steps[3_999] == 4_999 and np.isnan(efficiency).all() and np.isnan(loss).all()


def test_a_killed_task_leaves_a_gap_and_its_signs_at_their_seconds() -> None:
    snapshots = watched(32, 3, "worker:1=kill@12s-16s")
    last = snapshots[-1]
    assert last.history is not None
    lines = drawn(last)
    assert "steps/s" in lines[0] and "efficiency" in lines[0] and "loss" in lines[0]
    known = [snapshot.findings.steps_per_second for snapshot in snapshots]
    kept = last.history.figures.read(int(snapshots[0].at), int(last.at) + 1)[0]
    assert kept == pytest.approx([np.nan if each is None else each for each in known], nan_ok=True)
    assert lines[0].split("steps/s ")[1].startswith(f"{known[-1]:.1f}  ")
    window = time_window(last.history.figures.first or 0, last.at, 60, KEPT)
    marks = axis_marks(last.timeline, window, PLAIN)
    assert {sign for sign, _ in marks.values()} >= {PLAIN.glyphs.failed, PLAIN.glyphs.moving}
    crash = next(entry for entry in last.timeline if entry.kind == "crash")
    assert marks[int(crash.at - window.begin) // window.seconds // 2][0] == PLAIN.glyphs.failed
    curve = next(line for line in lines[1:-2] if "*" in line).split("|")[1].rstrip()
    assert " *" in curve[8:].lstrip(), "no step was made in between, and none is drawn"
    assert lines[-1].count(clock(window.begin)) == 3 and all(line.isascii() for line in lines)
    assert not any(line.isascii() for line in drawn(last, appearance=Appearance())[:2])


def test_a_task_alone_has_no_efficiency_and_an_earlier_picture_none_of_what_came_later() -> None:
    snapshots = watched(20, 1)
    assert "efficiency" not in drawn(snapshots[-1])[0]
    narrow = drawn(snapshots[-1], width=52, height=5)
    assert "<" in narrow[-1], "min, mean and max stand below where there is no room above"
    early, before = snapshots[12], fakes.NOW
    paused = drawn(early)
    assert paused[1].count("*") + paused[2].count("*") < sum(line.count("*") for line in drawn(snapshots[-1])[1:-2])
    assert early.history is snapshots[-1].history and early.at > before
