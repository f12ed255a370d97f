"""Spans of a worker of ParameterServerStrategy into steps on the chief's clock."""

import math
from itertools import count

import pytest
from tfscale.trainer.probe.rows.spans import Distribution, Kind, Site, Span
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.worker_steps import Call, WorkerSteps

PROGRAM = Distribution("ParameterServerStrategy")
_numbers = count()
CLOCK = 1000.0
"""Seconds by which the worker's clock is ahead of the chief's."""


def site(kind: Kind, **traits: object) -> Site:
    return Site(next(_numbers), kind, **traits)  # type: ignore[arg-type]


INPUT = site(Kind.INPUT, examples=16)
EXCHANGE = site(Kind.EXCHANGE)
REDUCE = site(Kind.REDUCE, in_run=True)
RUN = site(Kind.RUN, trains=True, distribution=PROGRAM)
BY_HAND = site(Kind.RUN, trains=True, distribution=PROGRAM)
TEST = site(Kind.RUN, distribution=PROGRAM)


def function(at: float, pulled: float = 0.004) -> tuple[list[Span], Call]:
    """Return the spans of a step: batch after 2 ms, variables after `pulled`, gradients after 12 ms, push after 18."""
    begin = at + CLOCK
    spans = [
        Span(INPUT, begin, begin + 0.002),
        Span(EXCHANGE, begin, begin + pulled),
        Span(REDUCE, begin + 0.012, begin + 0.012),
        Span(RUN, begin + 0.018, begin + 0.018),
    ]
    return spans, Call(at - 0.001, at + 0.019)


def feed(steps: WorkerSteps, *functions: tuple[list[Span], Call]) -> list[tuple[Step, float]]:
    return steps.feed([span for spans, _ in functions for span in spans], [call for _, call in functions])


def test_a_function_is_a_step_without_a_reduction() -> None:
    _, (step, pull) = feed(WorkerSteps(PROGRAM), function(0.0), function(0.02))
    assert step.sequence == 1 and step.distribution == PROGRAM and step.examples == 16
    phases = (step.update, step.host, step.input, step.compute)
    assert phases == pytest.approx((0.006, 0.002, 0.002, 0.010), abs=1e-6)
    assert math.isnan(step.reduce) and step.global_step is None
    assert pull == pytest.approx(0.002, abs=1e-6)


def test_the_end_is_on_the_chiefs_clock() -> None:
    steps = WorkerSteps(PROGRAM)
    ((first, _),) = feed(steps, function(5.0))
    # The last stamp came 1 ms before the chief had the answer.
    assert first.end == pytest.approx(5.012 + 0.001, abs=1e-6)
    ((second, _),) = feed(steps, (function(6.0)[0], Call(6.0, 6.5)))
    assert second.end == pytest.approx(6.012 + 0.001, abs=1e-6)


@pytest.mark.parametrize(("pulled", "waited"), [(0.001, 0.0), (0.002, 0.0), (0.012, 0.010), (0.015, 0.010)])
def test_variables_are_waited_for_once_the_batch_is_there_and_in_compute(pulled: float, waited: float) -> None:
    steps = WorkerSteps(PROGRAM)
    feed(steps, function(0.0))
    ((step, pull),) = feed(steps, function(0.02, pulled))
    assert pull == pytest.approx(waited, abs=1e-6)
    assert step.compute == pytest.approx(0.010, abs=1e-6)


def test_after_a_failure_the_time_since_the_step_before_is_unknown() -> None:
    steps = WorkerSteps(PROGRAM)
    feed(steps, function(0.0))
    spans, call = function(30.0)
    ((step, _),) = steps.feed(spans, [Call(0.02, 5.0, failed=True), call])
    assert step.sequence == 1
    assert math.isnan(step.update) and math.isnan(step.host)
    assert step.compute == pytest.approx(0.010, abs=1e-6)


def test_functions_that_tell_no_step_are_steps_themselves() -> None:
    steps = WorkerSteps(PROGRAM)
    calls = [Call(0.0, 0.5), Call(0.6, 1.0), Call(1.0, 1.1, failed=True), Call(2.0, 2.4)]
    told = [step for step, _ in steps.feed([Span(BY_HAND, 0.4, 0.4)], calls)]
    assert [(step.sequence, step.end) for step in told] == [(0, 0.5), (1, 1.0), (2, 2.4)]
    assert math.isnan(told[0].host) and told[1].host == pytest.approx(0.1) and math.isnan(told[2].host)
    assert all(math.isnan(step.compute) and step.distribution == PROGRAM for step in told)


def test_evaluation_is_no_step() -> None:
    steps = WorkerSteps(PROGRAM)
    assert steps.feed([Span(INPUT, 0.0, 0.1), Span(TEST, 0.4, 0.4)], [Call(0.0, 0.5)]) == []
