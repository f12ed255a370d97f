"""State and flag of the task for which the others wait, from the third second on."""

from __future__ import annotations

import re

import pytest
from simulated_runs import simulated
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.widgets.appearance.state_text import flag_text, state_text
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.panes.cluster_metrics import figures_of

GLYPHS = Appearance().glyphs


def after(seconds: int, fault: str) -> Snapshot:
    state = states(simulated_spec(3))()
    snapshot = state.picture(0.0)
    for event in simulated(seconds, 3, fault):
        state.fold(event)
        if isinstance(event, SecondPassed):
            snapshot = state.snapshot(event.at)
    return snapshot


@pytest.mark.parametrize(
    ("fault", "seconds", "state", "flag", "severity"),
    [
        ("worker:1=stop@10s", 15, "stopped (T)", "waited for: stopped by a signal", "warning"),
        ("worker:1=stop@10s", 25, "stopped (T)", "stuck: stopped by a signal", "critical"),
        ("worker:1=hang@10s", 15, "△ running", "waited for: idle", "warning"),
        ("worker:1=hang@10s", 75, "△ running", "stuck: idle", "critical"),
    ],
)
def test_the_row_of_the_task_that_is_waited_for_is_flagged(
    fault: str, seconds: int, state: str, flag: str, severity: str
) -> None:
    snapshot = after(seconds, fault)
    views = {str(view.task): view for view in snapshot.tasks}
    assert state in state_text(views["worker:1"], GLYPHS)[0]
    assert flag_text(views["worker:1"], snapshot.at, GLYPHS) == (f"{Appearance().sign(severity)} {flag}", severity)
    assert flag_text(views["worker:0"], snapshot.at, GLYPHS)[0] == ""
    assert state_text(views["worker:0"], GLYPHS) == ("○ waiting", "info")


@pytest.mark.parametrize("fault", ["worker:1=1.4x@5s", "worker:1=40ms,input@5s", "worker:1=20ms,host@5s"])
def test_the_flag_of_a_straggler_has_the_number_of_its_sentence(fault: str) -> None:
    snapshot = after(40, fault)
    (view,) = [view for view in snapshot.tasks if view.diagnoses]
    number = re.search(r"\(([\d.,]+)x\)", snapshot.findings.headline)
    flag = flag_text(view, snapshot.at, GLYPHS)[0]
    assert number is not None and f" {number[1]}x " in flag, (flag, snapshot.findings.headline)


def test_the_figures_of_a_cluster_that_stands_still_are_zero_or_gone() -> None:
    figures = {figure.name: figure.value for figure in figures_of(after(20, "worker:1=stop@10s"))}
    assert (figures["steps/s"], figures["examples/s"]) == ("0", "0")
    assert not {"a step", "efficient", "loss", "network", "lost to stragglers"} & set(figures)
