"""Goodput: every second of a run is in one bucket."""

import numpy as np
import pytest
from tfscale.core.analysis.run.goodput import BUCKETS, Goodput, without
from tfscale.core.analysis.steps.step_table import AlignedSteps
from tfscale.core.records import Activity, ActivityKind


def steps(first: int, count: int, begin: float, slow: float = 0.0, length: float = 0.1) -> AlignedSteps:
    """Return steps of two workers: 10 % input, 60 % compute, 20 % transfer; worker 1 computes `slow` longer."""
    phases = np.zeros((5, count, 2), np.float32)
    phases[0] = phases[2] = 0.1 * length
    phases[3] = 0.6 * length
    phases[3, :, 1] += slow
    phases[4] = 0.2 * length
    phases[4, :, 0] += slow
    end = begin + (length + slow) * np.arange(1, count + 1)
    return AlignedSteps(("worker:0", "worker:1"), np.arange(first, first + count), end, phases)


@pytest.fixture
def run() -> Goodput:
    """Return the goodput of a run that began at 100, before its first step."""
    made = Goodput()
    made.started(100.0)
    return made


def test_before_anything_started_nothing_is_known() -> None:
    assert (Goodput().spent(5.0), Goodput().share(5.0)) == ({}, None)


def test_a_plain_run_is_start_input_and_steps(run: Goodput) -> None:
    run.steps((1, 1), steps(0, 100, 110.0), 99)
    spent = run.spent(120.0)
    assert set(spent) == set(BUCKETS)
    assert spent["start"] == pytest.approx(10.0)
    assert spent["input"] == pytest.approx(1.0)
    assert spent["productive"] == pytest.approx(9.0)
    assert sum(spent.values()) == pytest.approx(20.0)
    assert run.share(120.0) == pytest.approx(0.45)


def test_waiting_for_a_straggler_is_not_goodput(run: Goodput) -> None:
    run.steps((1, 1), steps(0, 50, 110.0, slow=0.1), 49)
    spent = run.spent(120.0)
    assert spent["stragglers"] == pytest.approx(50 * 0.1 / 2)
    assert sum(spent.values()) == pytest.approx(20.0, rel=1e-3)


def test_compiling_and_saving_have_their_own_buckets_wherever_they_lie(run: Goodput) -> None:
    run.activities("worker:0", [Activity(ActivityKind.COMPILE, 103.0, 108.0)])
    run.activities("worker:1", [Activity(ActivityKind.COMPILE, 104.0, 109.0)])
    run.steps((1, 1), steps(0, 10, 110.0), 9)
    run.activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0)])
    run.activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0, 114.0)])
    run.steps((1, 1), steps(10, 10, 115.0), 19)
    spent = run.spent(116.0)
    assert spent["compile"] == pytest.approx(6.0)
    assert spent["start"] == pytest.approx(4.0)
    assert spent["checkpoint"] == pytest.approx(3.0)
    assert spent["unknown"] == pytest.approx(1.0)
    assert sum(spent.values()) == pytest.approx(16.0)


def test_a_gap_within_what_came_at_once_is_seen(run: Goodput) -> None:
    early, late = steps(0, 10, 110.0), steps(10, 10, 116.0)
    both = AlignedSteps(
        early.subjects,
        np.concatenate([early.sequence, late.sequence]),
        np.concatenate([early.end, late.end]),
        np.concatenate([early.phases, late.phases], axis=1),
    )
    run.activities("worker:0", [Activity(ActivityKind.EVALUATION, 112.0, 115.0)])
    run.steps((1, 1), both, 19)
    spent = run.spent(117.0)
    assert (spent["evaluation"], spent["unknown"]) == (pytest.approx(3.0), pytest.approx(2.0))


def test_steps_made_again_after_a_restart_are_lost_and_the_way_back_is_recovery(run: Goodput) -> None:
    run.steps((1, 1), steps(0, 100, 110.0), 99)
    run.steps((2, 1), steps(0, 60, 130.0), 119)
    spent = run.spent(136.0)
    assert spent["recovery"] == pytest.approx(10.0)
    assert spent["lost_progress"] == pytest.approx(4.0)
    assert spent["productive"] == pytest.approx(9.0 + 2.0 * 0.9)
    assert sum(spent.values()) == pytest.approx(36.0)


def test_steps_are_counted_once_however_often_they_are_asked_for(run: Goodput) -> None:
    assert run.next_step((1, 1)) == 0
    run.steps((1, 1), steps(0, 100, 110.0), None)
    assert (run.next_step((1, 1)), run.next_step((2, 1))) == (100, 0)
    run.steps((1, 1), steps(100, 0, 120.0), None)
    assert run.spent(120.0)["productive"] == pytest.approx(9.0)


def test_what_still_lasts_counts_up_to_now(run: Goodput) -> None:
    run.steps((1, 1), steps(0, 10, 110.0), 9)
    run.activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0)])
    assert run.spent(121.0)["checkpoint"] == pytest.approx(10.0)


def test_intervals_are_taken_out_of_each_other() -> None:
    assert without([(0.0, 10.0)], [(2.0, 3.0), (5.0, 20.0), (-4.0, 1.0)]) == [(1.0, 2.0), (3.0, 5.0)]
    assert without([(0.0, 1.0)], [(5.0, 6.0)]) == [(0.0, 1.0)]
    assert without([(0.0, 1.0)], [(0.0, 1.0)]) == []
