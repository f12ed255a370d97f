"""Spans into steps: the step of each span, and the phases."""

import math

import pytest
from tfscale.core.records.probe_status import Activity, ActivityKind
from tfscale.trainer.probe.rows.spans import Counter, Kind, Sites, Span
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.step import Step


class Program:
    """Writer of a program's spans, with the sites of a `fit` under MultiWorkerMirrored."""

    def __init__(self, eager: bool = False, looped: bool = False, collective: bool = True) -> None:
        self.sites = sites = Sites()
        make = sites.eager if eager else sites.traced
        self.input = make(Kind.INPUT, looped=looped)
        self.count = sites.traced(Kind.REDUCE, bytes=8, overlaps_updates=True, collective=True)
        self.gradients = sites.traced(Kind.REDUCE, bytes=1_000_000, in_run=True, collective=collective)
        self.metric = sites.traced(Kind.REDUCE, bytes=4, overlaps_updates=True, collective=True)
        self.run = make(Kind.RUN, trains=True, looped=looped)
        self.part = sites.traced(Kind.RUN, trains=True)
        self.test = sites.traced(Kind.RUN)
        self.gradient = sites.traced(Kind.GRADIENT)
        self.local = sites.traced(Kind.RUN, trains=True, applies=True)
        self.mean = sites.traced(Kind.RUN)

    def step(self, at: float) -> list[Span]:
        """Return a step from `at` (the exit before) on: update 2, host 3, input 5, compute 20, reduce 10 ms."""
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
    evaluation = [Span(program.input, 100.050, 100.051), Span(program.test, 100.051, 100.060)]
    steps = fed([*program.step(100), *evaluation, *program.step(100.08)])
    assert len(steps) == 2
    # Its 10 ms are in no phase.
    assert milliseconds(steps[1]) == (2, 33, 5, 20, 10)


def test_without_a_batch_of_tensorflow_the_time_up_to_the_run_is_on_the_host() -> None:
    program = Program()
    program.run.begins = program.part.begins = True
    whole = [span for at in (100, 100.04) for span in program.step(at) if span.site is not program.input]
    assembler = StepAssembler()
    assert milliseconds(assembler.feed(whole)[1]) == (2, 8, 0, 20, 10) and assembler.own_input
    part = Span(program.part, 100.085, 100.090)
    (step,) = assembler.feed([part, Span(program.gradients, 100.13, 100.14), Span(program.run, 100.11, 100.142)])
    # The first micro-batch began after 3 ms and took 5, the second began 20 ms later and took 20.
    assert milliseconds(step) == (2, 23, 0, 25, 10)


@pytest.mark.parametrize(("eager", "host"), [(True, 3 + 15), (False, 3)])
def test_what_python_does_between_its_batch_and_the_step_is_on_the_host(eager: bool, host: int) -> None:
    program = Program(eager)
    program.run.begins = True
    spans = [
        span._replace(begin=at + 0.025) if span.site is program.run else span
        for at in (100, 100.04)
        for span in program.step(at)
    ]
    assert milliseconds(fed(spans)[1]) == (2, host, 5, 20 + 3 - host, 10)


def test_a_batch_that_python_took_to_build_the_model_is_nobodys() -> None:
    program = Program()
    peeked = Span(Program(eager=True).input, 99.0, 99.5)
    steps = fed([peeked, *program.step(100), *program.step(100.04)])
    assert milliseconds(steps[1]) == (2, 3, 5, 20, 10)


def test_evaluation_begins_and_ends_as_one_activity() -> None:
    program, assembler = Program(), StepAssembler()
    assembler.feed(program.step(100))
    for number in range(3):
        at = 100.1 + 0.01 * number
        assembler.feed([Span(program.input, at, at + 0.001), Span(program.test, at + 0.001, at + 0.01)])
    assert assembler.drain_activities(100.2) == [Activity(ActivityKind.EVALUATION, 100.1)]
    assert assembler.drain_activities(100.9) == []
    (ended,) = assembler.drain_activities(102)
    assert (ended.kind, ended.begin, ended.end) == ("evaluation", 100.1, pytest.approx(100.13))


def test_a_training_batch_ends_the_evaluation() -> None:
    program, assembler = Program(), StepAssembler()
    evaluated = [Span(program.input, 100.1, 100.101), Span(program.test, 100.101, 100.11)]
    assembler.feed([*program.step(100), *evaluated, *program.step(100.2)])
    assert assembler.drain_activities(100.3)[1] == Activity(ActivityKind.EVALUATION, 100.1, 100.11)


def test_micro_batches_up_to_the_reduction_are_one_step() -> None:
    program = Program()
    ms = 0.001

    def micro(at: float) -> list[Span]:
        """Return a micro-batch: host 1, input 2, compute 7 ms."""
        return [Span(program.input, at + ms, at + 3 * ms, 16.0), Span(program.part, at + 3 * ms, at + 10 * ms)]

    first = program.step(100)
    at = first[-1].end
    parts = [*micro(at), *micro(at + 10 * ms)]
    last = [
        Span(program.gradients, at + 25 * ms, at + 29 * ms),
        Span(program.run, at + 21 * ms, at + 30 * ms),
    ]
    step = fed([*first, *parts, *last])[1]
    # The run that reduces fetches no batch: 1 ms of host before it, 4 of compute in it.
    assert milliseconds(step) == (2, 3, 4, 18, 4)
    assert (step.sequence, step.examples) == (1, 32.0)


def test_micro_batches_without_a_strategy_are_told_by_their_gradients() -> None:
    program = Program(eager=True, collective=False)
    first = program.step(100)
    spans = [
        Span(program.input, 100.045, 100.046, 16.0),
        Span(program.gradient, 100.056, 100.056),
        Span(program.input, 100.060, 100.062, 16.0),
        Span(program.gradient, 100.072, 100.072),
        Span(program.gradients, 100.080, 100.080),
        Span(program.run, 100.075, 100.084),
    ]
    step = fed([*first, *spans])[1]
    assert milliseconds(step)[:4] == (2, 7, 3, 28)
    assert math.isnan(step.reduce) and (step.bytes, step.examples) == (0, 32.0)


def test_two_data_sets_read_one_after_the_other_are_one_batch() -> None:
    program = Program(eager=True)
    first, second = program.step(100), program.step(100.04)
    noise = Span(program.input, 100.0405 + 0.002, 100.0445, 64.0)
    step = fed([*first, noise, *second])[1]
    assert milliseconds(step) == (2, 1, 7, 20, 10)
    assert step.examples == 64


def test_a_step_that_xla_compiled_is_whole() -> None:
    program = Program()
    whole = program.sites.traced(Kind.RUN, trains=True, unsplit=True)
    spans = [
        span
        for number in range(2)
        for at in [100 + 0.05 * number]
        for span in (Span(program.input, at + 0.003, at + 0.005, 64.0), Span(whole, at + 0.005, at + 0.05))
    ]
    step = fed(spans)[1]
    assert step.end == pytest.approx(100.1)
    assert (round(1000 * step.host), round(1000 * step.input), step.examples) == (3, 2, 64)
    assert all(math.isnan(value) for value in (step.update, step.compute, step.reduce))


def test_each_replica_is_ready_so_much_earlier_than_the_slowest() -> None:
    program = Program()
    ready = [program.sites.traced(Kind.READY, replica=index, reduction=program.gradients) for index in range(2)]
    spans = [*program.step(100), Span(ready[0], 100.018, 100.018), Span(ready[1], 100.030, 100.030)]
    assert fed(spans)[0].earlier == pytest.approx((0.012, 0.0))


def test_a_slow_replica_is_told_in_every_micro_batch() -> None:
    program = Program()
    ready = {
        site: [program.sites.traced(Kind.READY, replica=index, reduction=site) for index in range(2)]
        for site in (program.part, program.gradients)
    }
    first = program.step(100)
    micro = [
        Span(program.input, 100.043, 100.045, 16.0),
        *(Span(site, at, at) for site, at in zip(ready[program.part], (100.050, 100.055), strict=True)),
        Span(program.part, 100.045, 100.056),
    ]
    last = [
        *(Span(site, at, at) for site, at in zip(ready[program.gradients], (100.060, 100.067), strict=True)),
        Span(program.gradients, 100.067, 100.070),
        Span(program.run, 100.057, 100.072),
    ]
    assert fed([*first, *micro, *last])[1].earlier == pytest.approx((0.012, 0.0))


def test_the_step_ends_with_its_last_large_reduction() -> None:
    program = Program()
    counter = program.sites.traced(Kind.REDUCE, bytes=8, in_run=True, collective=True)
    other = program.sites.traced(Kind.REDUCE, bytes=500_000, in_run=True, collective=True)
    first, second = program.step(100), program.step(100.04)
    more = [Span(other, 100.060, 100.065), Span(counter, 100.081, 100.0815)]
    step = fed([*first, *second, *more])[1]
    assert step.end == pytest.approx(100.08)
    assert milliseconds(step) == (2, 3, 5, 15, 15)
    assert step.bytes == 1_500_000


def test_what_the_process_did_otherwise_is_in_no_phase() -> None:
    program, assembler = Program(), StepAssembler()
    later = program.step(100.14)
    (_, step) = assembler.feed([*program.step(100), *later], [(100.045, 100.135)])
    assert milliseconds(step) == (2, 13, 5, 20, 10)


def test_a_long_pause_between_two_steps_is_idle_time() -> None:
    program, assembler = Program(), StepAssembler()
    steps = assembler.feed([span for start in (100, 100.04, 103.08) for span in program.step(start)])
    assert milliseconds(steps[2]) == (2, 0, 5, 20, 10)
    (idle,) = assembler.drain_activities(104)
    assert (idle.kind, idle.begin, idle.end) == ("idle", pytest.approx(100.082), pytest.approx(103.085))


def test_steps_are_counted_on_from_where_the_optimizer_was() -> None:
    program = Program()
    program.run.counter = Counter(base=500)
    steps = fed([*program.step(100), *program.step(100.04)])
    assert [step.global_step for step in steps] == [501, 502]


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


def test_micro_batches_are_counted_for_the_one_update_of_a_step() -> None:
    program = Program()
    parts = [
        span
        for at in (100.0, 100.01, 100.02)
        for span in (Span(program.input, at, at + 0.001, 16.0), Span(program.part, at + 0.001, at + 0.01))
    ]
    (by_hand,) = fed([*parts, *program.step(100.03)])
    assert (by_hand.micro_batches, by_hand.local_steps) == (1, 1)
    program.run.applies = True
    (step,) = fed([*parts, *program.step(100.03)])
    assert (step.micro_batches, step.local_steps, step.examples) == (4, 1, 16.0 * 3 + 64.0)
    program.run.micro_batches = 4
    (looped,) = fed(program.step(100))
    assert (looped.micro_batches, looped.local_steps) == (4, 1)


def test_updates_of_a_replica_by_itself_are_local_steps_up_to_the_next_all_reduce() -> None:
    program = Program()
    program.local.micro_batches = 2
    steps = [
        span
        for number in range(8)
        for span in (
            Span(program.input, 100 + 0.01 * number, 100.001 + 0.01 * number, 32.0),
            Span(program.local, 100.001 + 0.01 * number, 100.009 + 0.01 * number),
        )
    ]
    mean = [Span(program.gradients, 100.09, 100.10), Span(program.mean, 100.085, 100.11)]
    (step,) = fed([*steps, *mean])
    assert (step.micro_batches, step.local_steps, step.examples) == (2, 8, 256.0)
    assert step.end == pytest.approx(100.10) and step.reduce == pytest.approx(0.01)


def test_bytes_that_are_gathered_are_counted_apart() -> None:
    program = Program()
    program.gradients.gathered, program.gradients.gathers_more = 1000, True
    program.gradients.dense_bytes, program.gradients.wire_type = 5_000_000, "float32"
    read, reduced, run = program.step(100)
    (step,) = fed([read, reduced._replace(amount=500.0), run])
    assert (step.bytes, step.gathered, step.dense_bytes, step.wire_type) == (1_000_500, 1500, 5_000_000, "float32")
