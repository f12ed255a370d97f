"""Many usual steps at once: the same steps as one by one, whatever a program does and whenever it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_rows import MS, Loop, loops, usual
from tfscale.trainer.probe import fold as folding
from tfscale.trainer.probe.columns import batches, without_phases
from tfscale.trainer.probe.fold import Fold
from tfscale.trainer.probe.plain import StepColumns
from tfscale.trainer.probe.spans import Span
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import Step, StepAssembler
from tfscale.trainer.probe.table import Member, RowKinds


def told(loop: Loop, ends: Sequence[float], delay: float, pause: bool) -> tuple[list[Step], StepAssembler]:
    """What is found when the rows are read at these times, the newest `delay` seconds unsettled."""
    assembler = StepAssembler()
    fold = Fold(loop.sites.all, loop.kinds, assembler)
    assert loop.run.counter is not None
    loop.run.counter.count = 0
    steps: list[Step] = []
    before = 0.0
    for end in [*ends, np.inf]:
        pauses = [(end - 0.003, end - 0.002)] if pause and end < np.inf else []
        steps += fold.feed(loop.read(before, end), [], pauses, end - delay)
        assembler.drain_activities(end if end < np.inf else loop.at)
        before = end
    return steps, assembler


@settings(max_examples=150, deadline=None)
@given(loops(), st.lists(st.floats(0, 1), max_size=4), st.sampled_from([0.0, 0.003, 0.02]), st.booleans())
def test_together_is_as_one_by_one(loop: Loop, cuts: list[float], delay: float, pause: bool) -> None:
    ends = sorted(1000 + cut * (loop.at - 1000) for cut in cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "_MANY", 2)
        together, one = told(loop, ends, delay, pause)
        patch.setattr(folding, "_MANY", 10_000)
        singly, other = told(loop, ends, delay, pause)
    assert len(together) == len(singly)
    for mine, theirs in zip(together, singly, strict=True):
        np.testing.assert_allclose(mine[1:7], theirs[1:7], rtol=0, atol=1e-6)
        assert mine[0] == theirs[0] and mine[7:] == theirs[7:]
    assert one.tail == other.tail
    assert loop.run.counter is not None
    assert loop.run.counter.count == loop.steps
    # Where iterations overlap by more than a step takes, a reduction may end before the run that it is not of.
    assert len(together) == loop.run.counter.count or (loop.overlaps and len(together) < loop.run.counter.count)


def test_every_update_is_counted_also_where_iterations_overlap_by_more_than_a_step() -> None:
    loop = Loop(collective=False)
    for overlap in (0, 0, 2):
        loop.at -= overlap * MS
        loop.step((0, 0, 0, 0, 0))
    loop.rows[-1] = 1000.0, [*loop.rows[-1][1][:-1], 1000.0]
    steps, _ = told(loop, [], 0.0, False)
    assert [step.global_step for step in steps] == [8, 9]
    assert loop.run.counter is not None and loop.run.counter.count == 3


def read(loop: Loop, *ends: float) -> list[Sequence[Step]]:
    """What each read finds."""
    fold, found, before = Fold(loop.sites.all, loop.kinds, StepAssembler()), [], 0.0
    for end in ends:
        found.append(fold.feed(loop.read(before, end), [], [], end - 0.02))
        before = end
    return found


@pytest.mark.parametrize("collective", [True, False])
def test_after_the_first_read_usual_steps_come_as_columns(collective: bool) -> None:
    first, second, third = read(usual(100, collective), 1000.5, 1002.5, 1010)
    assert (type(first), type(second), type(third)) == (list, StepColumns, StepColumns)
    assert len(first) + len(second) + len(third) == 100
    assert [step.sequence for step in third] == list(range(len(first) + len(second), 100))


def test_what_is_unusual_goes_the_long_way_and_only_that() -> None:
    loop = usual(60)
    loop.evaluation()
    for _ in range(60):
        loop.step((2, 3, 5, 20, 10))
    kinds = [type(steps) for steps in read(loop, 1000.5, 1002.3, 1003, 1003.2, 1010)]
    # One more than the read with the evaluation in it, which leaves a step half told.
    assert kinds == [list, StepColumns, list, list, StepColumns]


def test_a_function_that_is_traced_again_goes_the_short_way_too() -> None:
    loop = usual(40)
    loop.trace_again()
    for _ in range(40):
        loop.step((2, 3, 5, 20, 10))
    _, steps = read(loop, 1000.5, 1010)
    assert isinstance(steps, StepColumns)
    assert [step.examples for step in steps[-41:]] == [32.0, *[16.0] * 40]
    assert [step.global_step for step in steps] == list(range(88 - len(steps), 88))


def test_a_batch_that_is_there_before_the_stamp_that_asks_for_it_took_no_time() -> None:
    loop = usual(60)
    for _ in range(20):
        loop.step((2, 3, 5, 20, 10), late=6)
    _, steps = read(loop, 1000.5, 1010)
    assert isinstance(steps, StepColumns)
    np.testing.assert_allclose([step[2:7] for step in steps[-19:]], 19 * [[0.01, 0.005, 0.0, 0.005, 0.02]])


@pytest.mark.parametrize("first", [1001.5, 1002])
def test_a_pause_keeps_the_steps_around_it_from_nothing(first: float) -> None:
    loop = usual(60)
    loop.at += 30
    for _ in range(60):
        loop.step((2, 3, 5, 20, 10))
    assembler = StepAssembler()
    fold = Fold(loop.sites.all, loop.kinds, assembler)
    kinds, told, before = [], [], 0.0
    for end in (1000.5, first, 1040):
        kinds.append(type(steps := fold.feed(loop.read(before, end), [], [], end - 0.02)))
        told += assembler.drain_activities(end)
        before = end
    assert kinds == [list, StepColumns, StepColumns]
    (idle,) = told
    assert idle.kind == "idle" and idle.end is not None and 30 < idle.end - idle.begin < 30.1
    after = steps[-60]
    assert after.host == 0.0 and after.reduce == pytest.approx(steps[-59].reduce)


def test_few_steps_are_not_worth_columns() -> None:
    assert [type(steps) for steps in read(usual(20), 1000.5, 1001)] == [list, list]


@pytest.mark.parametrize("seen", [lambda steps: steps, without_phases])
@pytest.mark.parametrize("collective", [True, False])
def test_columns_are_told_as_their_steps_would_be(
    seen: Callable[[Sequence[Step]], Sequence[Step]], collective: bool
) -> None:
    _, steps = read(usual(100, collective), 1000.5, 1010)
    assert isinstance(steps, StepColumns)
    (mine,), (theirs,) = batches("worker:1", seen(steps), 3), batches("worker:1", seen(list(steps)), 3)
    assert {"clamped": 0, **mine} == theirs
    assert Status().after(steps) == Status().after(list(steps))


def test_a_row_tells_its_spans_whatever_else_lies_between() -> None:
    loop, kinds = Loop(), RowKinds()
    step = kinds.add([Member(loop.input, 3), Member(loop.gradients, 2), Member(loop.run, 1)])
    metric = kinds.add([Member(loop.metric, 2)])
    rows = np.zeros((3, 12))
    rows[0, :7] = step, 1, 2, 32, 3, 4, 5
    rows[1, :3] = metric, 6, 7
    rows[2, :7] = step, 8, 9, 16, 10, 11, 12
    assert sorted(kinds.table(rows).spans(loop.sites.all), key=lambda span: span.end) == [
        Span(loop.input, 1, 2, 32),
        Span(loop.gradients, 3, 4),
        Span(loop.run, 5, 5),
        Span(loop.metric, 6, 7),
        Span(loop.input, 8, 9, 16),
        Span(loop.gradients, 10, 11),
        Span(loop.run, 12, 12),
    ]
    assert kinds.table(rows[:0]).spans(loop.sites.all) == []
