import math
from array import array
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tfscale.console.analysis.steps.step_summary import steps_per_second
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.core.records.step_batch import PHASES, StepBatch

Batch = Callable[..., StepBatch]
BOTH = ("worker:0", "worker:1")


def test_steps_line_up_by_sequence_in_whatever_order_they_come(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:1", 20, 20))
    table.add(batch("worker:0", 20, 30))
    table.add(batch("worker:1", 40, 5))
    aligned = table.aligned(BOTH, first=25)
    assert list(aligned.sequence) == list(range(25, 45))
    assert np.allclose(aligned.lag, 0.04)
    assert np.allclose(aligned.end, [0.05 * (row + 1) for row in range(25, 45)])
    assert table.newest("worker:0") == 49
    assert table.global_step("worker:1") == 44


def test_steps_that_somebody_has_not_reported_whole_are_left_out(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 10))
    table.add(batch("worker:1", 0, 4))
    table.add(batch("worker:1", 6, 4, compute=[0.01, math.nan, 0.01, 0.01]))
    assert list(table.aligned(BOTH).sequence) == [0, 1, 2, 3, 6, 8, 9]


def test_an_unknown_column_lines_nothing_up_but_is_kept(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 10))
    table.add(batch("worker:1", 0, 10, input=[]))
    assert len(table.aligned(BOTH)) == 0
    assert len(table.recent("worker:1", 5.0, 20)) == 10
    phases = table.newest_of_each(BOTH, 20)
    assert np.isfinite(phases[0, :, 10:]).all() and np.isnan(phases[..., :10]).all()
    assert np.isnan(phases[1, 2]).all() and np.isfinite(phases[1, 3, 10:]).all()


def test_the_rate_counts_the_steps_that_never_came(batch: Batch) -> None:
    table = StepTable()
    for first in range(0, 256, 64):
        table.add(batch("worker:0", first, 32))
    ends = table.recent("worker:0", 5.0, 20)
    assert (len(ends), np.isnan(ends).sum()) == (96, 32)
    assert steps_per_second(ends) == pytest.approx(20.0)


@pytest.mark.parametrize("packed", [lambda _, values: values, array], ids=["lists", "arrays"])
def test_many_batches_of_any_length_stand_where_they_belong(
    batch: Batch, packed: Callable[[str, list[float]], Sequence[float]]
) -> None:
    table, subjects = StepTable(), [f"worker:{index}" for index in range(300)]
    for first, count in ((0, 7), (7, 1), (8, 30)):
        for index, subject in enumerate(subjects):
            compute = [index + row / 64 for row in range(first, first + count)]
            lengths = {
                "compute": packed("f", compute),
                "end": packed("d", [float(row) for row in range(first, first + count)]),
            }
            same = {name: packed("f", [0.5] * count) for name in ("update", "host", "input", "reduce")}
            table.add(batch(subject, first, count, **same, **lengths))
    table.add(batch(subjects[-1], 38, 4, compute=packed("f", [1.0] * 4), input=packed("f", [])))
    aligned = table.aligned(subjects)
    assert list(aligned.end) == list(aligned.sequence) == list(range(38))
    assert (aligned.phases[3] == np.add.outer(np.arange(38) / 64, np.arange(300))).all()
    assert (aligned.phases[[0, 1, 2, 4]] == 0.5).all()


def test_sequences_that_do_not_overlap_line_nothing_up(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 50))
    table.add(batch("worker:1", 5000, 50))
    assert len(table.aligned(BOTH)) == 0


def test_a_new_generation_or_attempt_begins_anew_and_older_ones_are_ignored(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 100, 10))
    table.add(batch("worker:0", 0, 5, generation=2))
    assert table.newest("worker:0") == 4
    table.add(batch("worker:0", 110, 10))
    assert table.newest("worker:0") == 4
    table.add(batch("worker:0", 0, 2, generation=2, attempt=2))
    assert table.newest("worker:0") == 1
    table.add(batch("worker:0", 5, 5, generation=2, attempt=1))
    assert table.newest("worker:0") == 1


def test_a_new_process_of_an_attempt_begins_anew_and_an_older_one_is_ignored(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 40, part=7))
    table.add(batch("worker:1", 0, 40, part=9))
    assert len(table.aligned(("worker:0", "worker:1"))) == 40
    assert table.add(batch("worker:0", 0, 10, part=8))
    assert (table.resets, table.part("worker:0"), table.newest("worker:0")) == (2, 8, 9)
    assert not table.add(batch("worker:0", 40, 10, part=7))
    assert table.add(batch("worker:1", 0, 10, part=12)) and table.add(batch("worker:0", 10, 10, part=8))
    assert table.add(batch("worker:0", 0, 1, part=1, attempt=2))


def test_a_new_generation_counts_everybodys_attempts_anew(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 5))
    table.add(batch("worker:1", 0, 5, attempt=3))
    table.add(batch("worker:0", 0, 5, generation=2))
    assert table.add(batch("worker:1", 0, 5, generation=2)), "its attempt 3 was of the generation before"
    assert len(table.aligned(BOTH)) == 5 and table.resets == 2


def test_steps_are_given_as_reported(batch: Batch) -> None:
    table = StepTable()
    assert table.oldest() is None
    table.add(batch("worker:0", 20, 3))
    table.add(batch("worker:1", 21, 1, input=[]))
    ends, phases = table.reported(BOTH, 19, 22)
    assert table.oldest() == 20
    assert [table.newest_end(subject) for subject in BOTH] == [ends[0, 3], ends[1, 2]]
    assert np.isnan(ends).tolist() == [[True, False, False, False], [True, True, False, True]]
    assert np.isnan(phases[0]).any(axis=0).tolist() == [True, False, False, False]
    assert np.isnan(phases[1, :, 2]).tolist() == [False, False, True, False, False]


def test_memory_is_bounded_and_the_newest_steps_are_kept(batch: Batch) -> None:
    table = StepTable(keep=10.0)
    for first in range(0, 40_000, 500):
        for subject in BOTH:
            table.add(batch(subject, first, 500))
    aligned = table.aligned(BOTH)
    assert aligned.sequence[-1] == 39_999
    assert aligned.end[-1] - aligned.end[0] >= 10.0
    assert len(aligned) < 5000


def test_what_is_kept_keeps_its_place_when_the_oldest_go(batch: Batch) -> None:
    table = StepTable(keep=10.0)
    for first in range(0, 5_000, 100):
        for worker, subject in enumerate(BOTH):
            seconds = array("f", [step % 97 + 1 + worker for step in range(first, first + 100)])
            table.add(batch(subject, first, 100, compute=seconds))
    aligned = table.aligned(BOTH)
    assert 200 <= len(aligned) < 5_000
    own = aligned.sequence % 97 + 1
    assert np.array_equal(aligned.phases[3], np.stack([own, own + 1], axis=1))


def test_a_question_that_was_asked_before_is_answered_by_what_is_known_now(batch: Batch) -> None:
    table = StepTable()
    for compute in (0.25, 0.5):
        for subject in BOTH:
            table.add(batch(subject, 0, 30, compute=array("f", [compute] * 30)))
        for _ in range(2):
            window = table.window(BOTH, 0, 60.0, 20, 1.0)
            assert (window.phases[3] == compute).all() and len(window) == 30
            assert (table.newest_of_each(BOTH, 30)[:, 3] == compute).all()


def test_a_leap_of_the_sequence_does_not_exhaust_memory(batch: Batch) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 10))
    table.add(batch("worker:0", 10**12, 10))
    assert table.newest("worker:0") == 10**12 + 9
    assert len(table.aligned(("worker:0",))) == 10


backlogs = st.tuples(st.integers(0, 3), st.integers(0, 200), st.sets(st.integers(0, 90), min_size=1).map(sorted))
"""(worker, first sequence, steps after it) of a batch, with gaps or without."""


@settings(max_examples=200, deadline=None)
@given(st.lists(backlogs, min_size=1, max_size=12), st.randoms(use_true_random=False), st.sampled_from([1.0, 60.0]))
@example([(1, 0, [0]), (0, 0, [*range(100)])], Random(0), 60.0)
def test_backlogs_give_the_same_table_in_any_order(
    batches: list[tuple[int, int, list[int]]], random: Random, keep: float
) -> None:
    in_order, shuffled = (StepTable(keep=keep, cells=200, fewest=16, most=128) for _ in range(2))
    sent = [backlog(worker, [first + step for step in steps]) for worker, first, steps in batches]
    for batch in sorted(sent, key=lambda batch: (batch.sequence[-1], batch.subject)):
        in_order.add(batch)
    for batch in random.sample(sent, len(sent)):
        shuffled.add(batch)
    subjects = sorted(in_order.subjects())
    newest = [in_order.newest(subject) or 0 for subject in subjects]
    assert newest == [shuffled.newest(subject) for subject in subjects]
    first, last = max(in_order.base, shuffled.base), max(newest)
    tables = [table.reported(subjects, first, last) for table in (in_order, shuffled)]
    for ordered, other in zip(*tables, strict=True):
        assert first <= last and np.isfinite(ordered[..., -1]).any()
        assert np.array_equal(ordered, other, equal_nan=True)
    for table in (in_order, shuffled):
        table.aligned(subjects), table.window(subjects, 0, 5.0, 20, 1.0), table.newest_of_each(subjects, 20)


def backlog(worker: int, sequence: list[int]) -> StepBatch:
    phases = {name: [worker + step / 8 for step in sequence] for name in PHASES}
    subject = f"worker:{worker}"
    return StepBatch(1, 1, subject, subject, sequence, [step / 10 for step in sequence], **phases)


def test_nobody_is_aligned_with_nobody() -> None:
    assert len(StepTable().aligned(())) == 0
