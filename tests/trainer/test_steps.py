"""Spans into steps: which span is whose, and what each phase is."""

import math

import pytest
from tfscale.trainer.probe.spans import Kind, Sites, Span
from tfscale.trainer.probe.steps import Step, StepAssembler


class Program:
    """Writes the spans of a program with the sites of a `fit` under MultiWorkerMirrored."""

    def __init__(self, eager: bool = False, looped: bool = False) -> None:
        sites = Sites()
        make = sites.eager if eager else sites.traced
        self.input = sites.traced(Kind.INPUT, looped=True) if looped else make(Kind.INPUT)
        self.count = sites.traced(Kind.REDUCE, 8)
        self.gradients = sites.traced(Kind.REDUCE, 1_000_000, in_run=True)
        self.gradients.beside = False
        self.metric = sites.traced(Kind.REDUCE, 4)
        self.run = make(Kind.RUN)

    def step(self, at: float) -> list[Span]:
        """update 2, host 3, input 5, compute 20, reduce 10, from `at` (the exit before) on; milliseconds."""
        ms = 0.001
        return [
            Span(self.input, at + 5 * ms, at + 10 * ms, 64.0),
            Span(self.gradients, at + 30 * ms, at + 40 * ms),
            Span(self.run, at + 10 * ms, at + 42 * ms),
        ]


def fed(spans: list[Span]) -> list[Step]:
    return StepAssembler().feed(sorted(spans, key=lambda span: span.end))


def milliseconds(step: Step) -> tuple[float, ...]:
    return tuple(round(1000 * value, 3) for value in step[2:7])


@pytest.mark.parametrize("eager", [False, True])
def test_a_step_is_cut_into_five_phases(eager: bool) -> None:
    program = Program(eager)
    steps = fed([span for number in range(3) for span in program.step(100 + 0.04 * number)])
    assert [step.sequence for step in steps] == [0, 1, 2]
    assert milliseconds(steps[1]) == milliseconds(steps[2]) == (2, 3, 5, 20, 10)
    assert steps[2].end == pytest.approx(100.12)
    assert (steps[2].bytes, steps[2].examples, steps[2].clamped) == (1_000_000, 64.0, False)


def test_what_precedes_the_first_step_is_unknown() -> None:
    (step,) = fed(Program().step(100))
    assert math.isnan(step.update) and math.isnan(step.host)
    assert milliseconds(step)[2:] == (5, 20, 10)


def test_a_reduction_while_the_batch_is_fetched_is_waiting_and_not_input() -> None:
    program = Program()
    spans = [*program.step(100), *program.step(100.04), Span(program.count, 100.046, 100.049)]
    assert milliseconds(fed(spans)[1]) == (2, 3, 2, 20, 13)


def test_a_metric_reduced_beside_the_updates_does_not_shorten_them() -> None:
    program = Program()
    # Its tensor was ready in the forward pass, but collectives follow each other; it ends 1 ms after the updates.
    spans = [*program.step(100), Span(program.metric, 100.015, 100.043), *program.step(100.04)]
    assert milliseconds(fed(spans)[1]) == (2, 2, 5, 20, 11)


def test_evaluation_between_steps_is_no_step_and_takes_its_own_batch() -> None:
    program = Program()
    evaluation = [Span(program.input, 100.050, 100.051), Span(program.run, 100.051, 100.060)]
    steps = fed([*program.step(100), *evaluation, *program.step(100.08)])
    assert len(steps) == 2
    assert milliseconds(steps[1]) == (2, 43, 5, 20, 10)


def test_a_batch_that_python_took_to_build_the_model_is_nobodys() -> None:
    program = Program()
    peeked = Span(Program(eager=True).input, 99.0, 99.5)
    steps = fed([peeked, *program.step(100), *program.step(100.04)])
    assert milliseconds(steps[1]) == (2, 3, 5, 20, 10)


def test_batches_fetched_ahead_inside_a_loop_are_clamped_and_counted() -> None:
    program = Program(looped=True)
    first, second = program.step(100), program.step(100.04)
    second[0] = Span(program.input, 100.031, 100.033, 64.0)
    steps = fed([*first, *second])
    assert steps[1].clamped
    assert milliseconds(steps[1]) == (2, 0, 0, 28, 10)
    assert sum(steps[1][2:7]) == pytest.approx(0.04)


def test_a_batch_whose_stamp_came_too_late_harms_one_step_only() -> None:
    program = Program()
    steps = [program.step(100 + 0.04 * number) for number in range(4)]
    steps[1][0] = Span(program.input, 100.045, 100.0825)
    found = fed([span for spans in steps for span in spans])
    assert math.isnan(found[1].compute)
    assert milliseconds(found[2]) == milliseconds(found[3]) == (2, 3, 5, 20, 10)
