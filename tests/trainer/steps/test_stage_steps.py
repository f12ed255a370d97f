"""Steps of stages: what they compute, what they wait, and when all of them begin and end."""

from __future__ import annotations

import math

import pytest
from tfscale.core.records.probe_status import Collective
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.step_columns import step_batches
from tfscale.trainer.probe.steps.stage_steps import StageSteps

LOWER = [(10.0, 11.0), (13.0, 15.0)]
UPPER = [(11.0, 13.0)]


def test_a_stage_computes_in_its_passes_and_waits_for_a_neighbour_between() -> None:
    steps = StageSteps()
    steps.add([LOWER, UPPER], updated=15.5)
    steps.add([[(begin + 10, end + 10) for begin, end in stage] for stage in (LOWER, UPPER)], updated=25.5)
    lower, upper = steps.drain().values()
    assert [(step.sequence, step.end) for step in lower] == [(step.sequence, step.end) for step in upper]
    assert [(step.sequence, step.end) for step in lower] == [(0, 15.0), (1, 25.0)]
    assert [(step.compute, step.input) for step in (lower[0], upper[0])] == [(3.0, 2.0), (2.0, 3.0)]
    assert math.isnan(lower[0].update) and math.isnan(lower[0].host)
    assert (lower[1].update, lower[1].host) == (0.5, 4.5)
    assert sum(lower[1][2:6]) == pytest.approx(lower[1].end - lower[0].end)


def test_steps_are_drained_once_and_counted_on() -> None:
    steps = StageSteps()
    steps.add([LOWER], updated=16.0)
    assert [step.sequence for step in steps.drain()[0]] == [0]
    assert steps.drain() == {}
    steps.add([LOWER], updated=16.0)
    assert [step.sequence for step in steps.drain()[0]] == [1]


def test_stages_are_reported_as_subjects_of_their_task() -> None:
    steps = StageSteps()
    steps.add([LOWER, UPPER], updated=15.5)
    lower, upper = step_batches("worker:0", 1, 2, ProbeReport(Collective(0, 0), stages=steps.drain()))
    assert (lower.subject, upper.subject) == ("worker:0/stage:0", "worker:0/stage:1")
    assert (list(lower.compute), list(lower.input), list(lower.reduce)) == ([3.0], [2.0], [])
    assert (upper.reporter, upper.generation, upper.attempt) == ("worker:0", 1, 2)
