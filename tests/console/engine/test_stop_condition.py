"""Ends of a script's console: its condition holds, or cannot hold any more."""

from __future__ import annotations

import fakes
import pytest
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.events import (
    FrameArrived,
)
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.core.records.diagnosis import Diagnosis

SPEC = fakes.spec(2)
FIRST, SECOND = fakes.worker(0), fakes.worker(1)
ARRIVED = FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST))


@pytest.mark.parametrize(
    ("conditions", "code", "met", "over"),
    [
        (("finished",), 0, "finished", True),
        (("failed",), 1, "failed", True),
        (("finished",), 1, None, True),
        (("failed", "finished"), 0, "finished", True),
        (("straggler",), 0, None, True),
    ],
)
def test_until_the_tasks_have_ended(conditions: tuple[str, ...], code: int, met: str | None, over: bool) -> None:
    running, until = fakes.folded(SPEC, *fakes.healthy_events(SPEC)), StopCondition(conditions)
    assert not until.is_over(running.snapshot(1.0), running)
    for event in fakes.ended_events(SPEC, code):
        running.fold(event)
    # Why a task has failed is waited for, though not for ever.
    assert until.is_over(running.snapshot(2.0), running) is (over and code == 0)
    assert until.is_over(running.snapshot(9.0), running) is over and until.met == met


def test_a_failure_is_over_once_its_crash_is_told() -> None:
    crash = Diagnosis("crash", str(FIRST), 1.0, None, "critical", "it was killed")
    ended = fakes.folded(SPEC, *fakes.healthy_events(SPEC), *fakes.ended_events(SPEC, 1), findings=Findings((crash,)))
    assert StopCondition(("finished",)).is_over(ended.snapshot(2.0), ended)


def test_until_somebody_straggles() -> None:
    slow = fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=fakes.straggler_findings(SPEC))
    until = StopCondition(("straggler",))
    assert until.is_over(slow.snapshot(1.0), slow) and until.met == "straggler"


def test_seconds_count_from_the_first_step_of_all() -> None:
    until, folded = StopCondition(seconds=5.0), fakes.folded(SPEC)
    assert not until.is_over(folded.snapshot(100.0), folded)
    for event in fakes.healthy_events(SPEC):
        folded.fold(event)
    assert [until.is_over(folded.snapshot(at), folded) for at in (101.0, 105.0, 106.0)] == [False, False, True]
