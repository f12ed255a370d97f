"""Goodput: every second of a run is in one bucket."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tfscale.console.analysis.run.goodput import BUCKETS, Goodput, without
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.core.records.probe_status import Activity, ActivityKind


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
    made.note_start(100.0)
    return made


def test_before_anything_started_nothing_is_known() -> None:
    assert (Goodput().spent(5.0), Goodput().share(5.0)) == ({}, None)


def test_a_plain_run_is_start_input_and_steps(run: Goodput) -> None:
    run.add_steps((1, 1), steps(0, 100, 110.0), 99)
    spent = run.spent(120.0)
    assert set(spent) == set(BUCKETS)
    assert spent["start"] == pytest.approx(10.0)
    assert spent["input"] == pytest.approx(1.0)
    assert spent["productive"] == pytest.approx(9.0)
    assert sum(spent.values()) == pytest.approx(20.0)
    assert run.share(120.0) == pytest.approx(0.45)


def test_waiting_for_a_straggler_is_not_goodput(run: Goodput) -> None:
    run.add_steps((1, 1), steps(0, 50, 110.0, slow=0.1), 49)
    spent = run.spent(120.0)
    assert spent["stragglers"] == pytest.approx(49 * 0.1 / 2), "the first step is waited for because of the start"
    assert sum(spent.values()) == pytest.approx(20.0, rel=1e-3)


def test_compiling_and_saving_have_their_own_buckets_wherever_they_lie(run: Goodput) -> None:
    run.note_activities("worker:0", [Activity(ActivityKind.COMPILE, 103.0, 108.0)])
    run.note_activities("worker:1", [Activity(ActivityKind.COMPILE, 104.0, 109.0)])
    run.add_steps((1, 1), steps(0, 10, 110.0), 9)
    run.note_activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0)])
    run.note_activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0, 114.0)])
    run.add_steps((1, 1), steps(10, 10, 115.0), 19)
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
    run.note_activities("worker:0", [Activity(ActivityKind.EVALUATION, 112.0, 115.0)])
    run.add_steps((1, 1), both, 19)
    spent = run.spent(117.0)
    assert (spent["evaluation"], spent["unknown"]) == (pytest.approx(3.0), pytest.approx(2.0))


def test_steps_made_again_after_a_restart_are_lost_and_the_way_back_is_recovery(run: Goodput) -> None:
    run.add_steps((1, 1), steps(0, 100, 110.0), 99)
    run.add_steps((2, 1), steps(0, 60, 130.0), 119)
    spent = run.spent(136.0)
    assert spent["recovery"] == pytest.approx(10.0)
    assert spent["lost_progress"] == pytest.approx(4.0)
    assert spent["productive"] == pytest.approx(9.0 + 2.0 * 0.9)
    assert sum(spent.values()) == pytest.approx(36.0)


def test_steps_are_counted_once_however_often_they_are_asked_for(run: Goodput) -> None:
    assert run.next_step((1, 1)) == 0
    run.add_steps((1, 1), steps(0, 100, 110.0), None)
    assert (run.next_step((1, 1)), run.next_step((2, 1))) == (100, 0)
    run.add_steps((1, 1), steps(100, 0, 120.0), None)
    assert run.spent(120.0)["productive"] == pytest.approx(9.0)


def test_what_still_lasts_counts_up_to_now(run: Goodput) -> None:
    run.add_steps((1, 1), steps(0, 10, 110.0), 9)
    run.note_activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0)])
    assert run.spent(121.0)["checkpoint"] == pytest.approx(10.0)


def test_what_one_worker_does_briefly_between_all_steps_has_its_bucket(run: Goodput) -> None:
    """A checkpoint of 15 ms after each step of 100 ms: too short a gap to be one where nothing is known of it."""
    fresh = steps(0, 50, 110.0)
    late = AlignedSteps(fresh.subjects, fresh.sequence, fresh.end + 0.015 * np.arange(1, 51), fresh.phases)
    late.phases[4, :, 1] += 0.015
    saved = [Activity(ActivityKind.CHECKPOINT, end + 0.001, end + 0.016) for end in late.end.tolist()]
    run.note_activities("worker:0", saved)
    run.add_steps((1, 1), late, 49)
    assert run.spent(float(late.end[-1]))["checkpoint"] == pytest.approx(49 * 0.015, rel=0.05)


def alone(first: int, begin: float, seconds: float, count: int = 10, workers: int = 4) -> AlignedSteps:
    """Return steps of which one worker begins the first `seconds` late: the others wait for it in the all-reduce."""
    phases = np.zeros((5, count, workers), np.float32)
    phases[3], phases[4] = 0.08, 0.02
    phases[4, 0, 1:] += seconds
    end = begin + seconds + 0.1 * np.arange(1, count + 1)
    subjects = tuple(f"worker:{index}" for index in range(workers))
    return AlignedSteps(subjects, np.arange(first, first + count), end, phases)


@pytest.mark.parametrize(
    ("kind", "bucket"),
    [
        (ActivityKind.CHECKPOINT, "checkpoint"),
        (ActivityKind.EVALUATION, "evaluation"),
        (ActivityKind.COMPILE, "compile"),
        (ActivityKind.IDLE, "unknown"),
    ],
)
def test_what_one_task_does_alone_is_no_straggler(run: Goodput, kind: ActivityKind, bucket: str) -> None:
    run.add_steps((1, 1), alone(0, 110.0, 0.0), 9)
    run.note_activities("worker:0", [Activity(kind, 111.0, 114.0)])
    run.add_steps((1, 1), alone(10, 111.0, 3.0), 19)
    spent = run.spent(115.0)
    assert spent[bucket] == pytest.approx(3.0)
    assert spent["stragglers"] == pytest.approx(0.0, abs=1e-5)
    assert spent["productive"] == pytest.approx(2.0)
    assert sum(spent.values()) == pytest.approx(15.0)


def test_a_checkpoint_that_is_written_beside_the_steps_holds_up_nobody(run: Goodput) -> None:
    run.add_steps((1, 1), alone(0, 110.0, 0.0), 9)
    run.note_activities("worker:0", [Activity(ActivityKind.CHECKPOINT, 111.0, 114.0)])
    run.add_steps((1, 1), alone(10, 111.0, 0.0, count=40), 49)
    spent = run.spent(115.0)
    assert (spent["checkpoint"], spent["productive"]) == (pytest.approx(0.0, abs=1e-5), pytest.approx(5.0))


def test_waiting_for_who_comes_last_to_the_first_step_is_a_start(run: Goodput) -> None:
    run.add_steps((1, 1), alone(0, 110.0, 20.0), 9)
    run.add_steps((2, 1), alone(0, 140.0, 20.0), 19)
    spent = run.spent(161.0)
    assert (spent["start"], spent["recovery"]) == (pytest.approx(30.0), pytest.approx(29.0))
    assert spent["stragglers"] == pytest.approx(0.0, abs=1e-5)
    assert sum(spent.values()) == pytest.approx(61.0)


def test_who_watches_from_the_middle_on_takes_what_it_did_not_see_for_nothing(run: Goodput) -> None:
    run.add_steps((1, 1), alone(5000, 9000.0, 0.0), 5009)
    assert sum(run.spent(9001.0).values()) == pytest.approx(1.0)
    assert run.share(9001.0) == pytest.approx(1.0)


moments = st.floats(100.0, 125.0)
activities = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(ActivityKind), moments, moments), max_size=4)


@settings(max_examples=60, deadline=None)
@given(activities, st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 2.0)), min_size=1, max_size=5))
def test_the_buckets_add_up_to_the_wall_time(
    done: list[tuple[int, ActivityKind, float, float]], runs: list[tuple[float, float]]
) -> None:
    run, at = Goodput(), 101.0
    run.note_start(100.0)
    for worker, kind, one, other in done:
        run.note_activities(f"worker:{worker}", [Activity(kind, min(one, other), max(one, other))])
    for number, (pause, slow) in enumerate(runs):
        fresh = steps(5 * number, 5, at + pause, slow)
        run.add_steps((1, 1), fresh, 4 * number + 4)
        at = float(fresh.end[-1])
        assert sum(run.spent(at).values()) == pytest.approx(at - 100.0)
    assert all(seconds >= -1e-4 for seconds in run.spent(at + 5.0).values())
    assert sum(run.spent(at + 5.0).values()) == pytest.approx(at - 95.0)


def test_intervals_are_taken_out_of_each_other() -> None:
    assert without([(0.0, 10.0)], [(2.0, 3.0), (5.0, 20.0), (-4.0, 1.0)]) == [(1.0, 2.0), (3.0, 5.0)]
    assert without([(0.0, 1.0)], [(5.0, 6.0)]) == [(0.0, 1.0)]
    assert without([(0.0, 1.0)], [(0.0, 1.0)]) == []
