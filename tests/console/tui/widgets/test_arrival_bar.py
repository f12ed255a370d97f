"""Bars while nobody makes a step: who has arrived in the all-reduce, who is missing, and for how long."""

from __future__ import annotations

import re

import pytest
from simulated_runs import simulated
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.arrival_bar import arrival_bar


def snapshots(seconds: int, fault: str) -> list[Snapshot]:
    state = states(simulated_spec(3))()
    taken = []
    for event in simulated(seconds, 3, fault):
        state.fold(event)
        if isinstance(event, SecondPassed):
            taken.append(state.snapshot(event.at))
    return taken


def bars(snapshot: Snapshot, *, letters: bool = False) -> dict[str, str]:
    still, look = snapshot.findings.condition.stillness, Appearance(letters=letters)
    assert still is not None
    drawn = {
        str(view.task): arrival_bar(view, still, 30.0, 30, look, background=look.palette.background)
        for view in snapshot.tasks
    }
    assert all(sum(len(segment.text) for segment in bar) == 30 for bar in drawn.values())
    return {name: "".join(segment.text for segment in bar) for name, bar in drawn.items()}


@pytest.mark.parametrize(("fault", "missing"), [("hang", "missing"), ("stop", "missing"), ("gone", "not heard")])
def test_the_bars_say_who_waits_and_who_is_missing_with_growing_seconds(fault: str, missing: str) -> None:
    taken = snapshots(30, f"worker:1={fault}@8s")
    earlier, later = bars(taken[-10]), bars(taken[-1])
    for shown in (earlier, later):
        assert shown["worker:1"].startswith(missing)
        assert shown["worker:0"].startswith("waits ") and shown["worker:2"].startswith("waits ")
    for name in earlier:
        assert _seconds(later[name]) == pytest.approx(_seconds(earlier[name]) + 9, abs=1)


def test_a_cluster_that_makes_steps_waits_for_nobody() -> None:
    taken = snapshots(30, "worker:1=hang@8s-16s")
    assert any(view.waits_for for snapshot in taken for view in snapshot.tasks)
    assert [view.waits_for for view in taken[-1].tasks] == [None] * 3


def test_without_colours_dots_say_how_long() -> None:
    shown = bars(snapshots(30, "worker:1=hang@8s")[-1], letters=True)
    assert re.fullmatch(r"waits \d+ s\.+ +", shown["worker:0"]) and "." not in shown["worker:1"]


def _seconds(bar: str) -> float:
    (number,) = re.findall(r"([\d.]+) s", bar)
    return float(number)
