"""History of every task's seconds, and of all tasks' newest steps."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import fakes
import numpy as np
import pytest
from tfscale.console.engine.events import SecondPassed
from tfscale.console.history.history import SECONDS, History
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskState
from tfscale.core.records.training import MOST_LOGS, LoggedNumber, Training

FIRST, SECOND = fakes.worker(0), fakes.worker(1)
PHASES = {"update": 0.01, "host": 0.02, "input": 0.03, "compute": 0.1, "reduce": 0.05}


def batch(
    task: Task, ends: Sequence[float], first: int = 0, generation: int = 1, attempt: int = 1, **phases: float | None
) -> StepBatch:
    count = len(ends)
    columns = {
        name: array("f", [] if value is None else [value] * count) for name, value in {**PHASES, **phases}.items()
    }
    sequence = array("Q", range(first, first + count))
    end = array("d", ends)
    return StepBatch(generation, attempt, str(task), str(task), sequence, end, sequence, **columns)


def told(history: History, task: Task, at: float, *batches: StepBatch, late: float = 0.0, **fields: object) -> None:
    frame: Frame = replace(fakes.frame(task, at=at), steps=batches, **fields)  # type: ignore[arg-type]
    history.fold(at + late, task, frame)
    history.close_second()


def now(seconds: float) -> float:
    return fakes.NOW + seconds


def test_steps_are_counted_in_the_second_in_which_they_end() -> None:
    history = History([FIRST])
    told(history, FIRST, now(0.9), batch(FIRST, [now(0.2), now(0.7)]))
    told(history, FIRST, now(1.9), batch(FIRST, [now(0.95), now(1.4)], first=2, compute=0.3))
    seconds = history.seconds(FIRST, now(3), 3)
    assert seconds.at.tolist() == [now(0), now(1), now(2)]
    assert seconds.steps.tolist()[:2] == [3.0, 1.0] and np.isnan(seconds.steps[2])
    assert seconds.step_time[0] == pytest.approx((2 * 0.21 + 0.41) / 3)
    assert seconds.longest[:2] == pytest.approx([0.41, 0.41])
    assert seconds.parts["compute"][:2] == pytest.approx([0.5 / 3, 0.3])


def test_waiting_is_what_goes_beyond_the_shortest_reduction_step_by_step() -> None:
    history = History([FIRST, SECOND])
    told(history, FIRST, now(1), batch(FIRST, [now(0.2)], 0, reduce=0.01), batch(FIRST, [now(0.4)], 1, reduce=0.07))
    told(history, SECOND, now(1), batch(SECOND, [now(0.2)], 0, reduce=0.07), batch(SECOND, [now(0.4)], 1, reduce=0.01))
    for task in (FIRST, SECOND):
        parts = history.seconds(task, now(1), 1).parts
        # Each was waited for in turn: the means alone would show 0.04 of transfer and no waiting.
        assert parts["transfer"] == pytest.approx([0.01]) and parts["wait"] == pytest.approx([0.03])


def test_one_that_meets_nobody_waits_for_nobody_and_costs_nobody() -> None:
    evaluator = Task(Role.EVALUATOR, 0)
    history = History([FIRST, evaluator])
    told(history, FIRST, now(1), batch(FIRST, [now(0.2)]))
    told(history, evaluator, now(1), batch(evaluator, [now(0.2)], reduce=0.001))
    assert history.seconds(FIRST, now(1), 1).parts["wait"] == pytest.approx([0.0])
    none = history.seconds(FIRST, now(1), 1)
    told(history, FIRST, now(2), batch(FIRST, [now(1.2)], 1, reduce=None))
    unknown = history.seconds(FIRST, now(2), 1)
    assert none.step_time == pytest.approx([0.21]) and unknown.step_time == pytest.approx([0.16])
    assert np.isnan(unknown.parts["transfer"]).all() and np.isnan(unknown.parts["wait"]).all()


def test_steps_of_unknown_phases_count_and_are_in_no_mean() -> None:
    history = History([FIRST])
    steps = batch(FIRST, [now(0.2), now(0.4)])
    for phase in PHASES:
        getattr(steps, phase)[0] = float("nan")
    told(history, FIRST, now(1), steps)
    seconds = history.seconds(FIRST, now(1), 1)
    assert seconds.steps == [2.0] and seconds.step_time == pytest.approx([0.21])
    assert seconds.longest == pytest.approx([0.21])


def test_times_that_are_none_are_left_out() -> None:
    history = History([FIRST])
    told(history, FIRST, now(1), batch(FIRST, [float("nan"), now(0.4)]))
    told(history, FIRST, now(2), batch(FIRST, [float("inf")], 2))
    seconds = history.seconds(FIRST, now(2), 2)
    assert seconds.steps[0] == 1.0 and np.isnan(seconds.steps[1])
    assert seconds.parts["transfer"][0] == pytest.approx(0.05)


def test_columns_of_any_sequence_are_taken() -> None:
    history = History([FIRST])
    told(history, FIRST, now(1), replace(batch(FIRST, [now(0.2)]), sequence=range(1), end=[now(0.2)], compute=[0.2]))
    assert history.seconds(FIRST, now(1), 1).parts["compute"] == pytest.approx([0.2])


def test_numbers_that_are_logged_beyond_what_is_kept_have_no_series() -> None:
    history = History([FIRST])
    for second in range(2 * MOST_LOGS):
        told(history, FIRST, now(second), training=Training(logs=(LoggedNumber(f"log_{second}", second),)))
    series = history.seconds(FIRST, now(2 * MOST_LOGS), 2 * MOST_LOGS).training
    assert [name for name in series if name.startswith("log_")] == [f"log_{place}" for place in range(MOST_LOGS)]
    assert series["log_3"][3] == 3 and np.isnan(series["log_3"][4])


def test_counters_are_those_of_the_second() -> None:
    gpus = tuple(
        GpuSample(index, str(index), "A100", use, 10_000, 40_000, 300.0, 400.0, heat, clock)
        for index, (use, heat, clock) in enumerate([(1.0, 60.0, 1_400_000_000), (0.5, 70.0, 1_100_000_000)])
    )
    history = History([FIRST])
    training = Training(loss=0.5, learning_rate=0.001, logs=(LoggedNumber("accuracy", 0.75),))
    told(history, FIRST, now(0.5), gpus=gpus, training=training)
    seconds = history.seconds(FIRST, now(2), 2)
    for series, value in (
        (seconds.gpu, 0.75),
        (seconds.gpu_memory, 20_000),
        (seconds.gpu_clock, 1.1e9),
        (seconds.gpu_power, 600),
        (seconds.gpu_temperature, 70),
        (seconds.cpu, 0.61),
        (seconds.received, 118e6),
        (seconds.sent, 117e6),
        (seconds.training["loss"], 0.5),
        (seconds.training["learning_rate"], 0.001),
        (seconds.training["accuracy"], 0.75),
    ):
        assert series[0] == pytest.approx(value) and np.isnan(series[1])


def test_of_many_tasks_counters_are_those_of_every_other_second_and_steps_of_each() -> None:
    history = History([fakes.worker(index) for index in range(251)])
    even = int(fakes.NOW) % 2
    for second in range(6):
        used = (GpuSample(0, "GPU-1", "A100", utilisation=second / 8),)
        at = now(even + second)
        told(history, FIRST, at + 0.4, batch(FIRST, [at + 0.1] * (second + 1), first=10 * second), gpus=used)
    seconds = history.seconds(FIRST, now(even + 7), 7)
    assert seconds.gpu[:6].tolist() == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5] and np.isnan(seconds.gpu[6])
    assert seconds.steps[:6].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert history.seconds(FIRST, now(even + 6), 3).gpu.tolist() == [0.25, 0.5, 0.5]


def test_of_many_tasks_older_minutes_are_kept_in_means() -> None:
    history = History([fakes.worker(index) for index in range(251)])
    begin = 60 * (int(fakes.NOW) // 60 + 1) - fakes.NOW
    for second in range(12):
        used, at = (GpuSample(0, "GPU-1", "A100", utilisation=second / 16),), now(begin + second)
        ends = [at + 0.1] * (1 + second % 3)
        told(history, FIRST, at + 0.4, batch(FIRST, ends, 10 * second, compute=0.1 + second / 10), gpus=used)
    before = history.seconds(FIRST, now(begin + 12), 12)
    told(history, SECOND, now(begin + 200), batch(SECOND, [now(begin + 199)]))
    after = history.seconds(FIRST, now(begin + 12), 12)
    assert before.steps.tolist() == [1.0, 2.0, 3.0] * 4 and after.steps.tolist() == [2.0] * 12
    assert after.gpu == pytest.approx(np.repeat([0.125, 0.5], 6)), "of every other second"
    assert after.longest == pytest.approx(np.repeat([before.longest[5], before.longest[11]], 6))
    known = np.repeat([before.step_time[:6] @ before.steps[:6], before.step_time[6:] @ before.steps[6:]], 6) / 12
    assert after.step_time == pytest.approx(known)


def test_what_comes_late_is_put_to_the_means_too() -> None:
    history = History([fakes.worker(index) for index in range(251)])
    begin = 60 * (int(fakes.NOW) // 60 + 1) - fakes.NOW
    for task in (FIRST, SECOND):
        told(history, task, now(begin + 20), batch(task, [now(begin + 20)]))
    told(history, SECOND, now(begin + 200), batch(SECOND, [now(begin + 199)], 1))
    for second in range(6):
        told(
            history, FIRST, now(begin + second), batch(FIRST, [now(begin + second)] * 3, 10 + second), late=200 - second
        )
    assert history.seconds(FIRST, now(begin + 12), 12).steps.tolist()[:6] == pytest.approx([3.0] * 6)


def test_ten_minutes_are_kept_and_no_more() -> None:
    history = History([FIRST])
    for second in range(SECONDS + 200):
        told(history, FIRST, now(second + 0.5), batch(FIRST, [now(second + 0.4)], second))
    until = now(SECONDS + 200)
    assert history.seconds(FIRST, until).steps.tolist() == [1.0] * SECONDS
    assert all(len(tracks._blocks) <= SECONDS // 60 + 2 for tracks in (history._steps, history._samples))
    # What is held still stays as it was.
    assert history.seconds(FIRST, until - 100, 50).steps.tolist() == [1.0] * 50


def test_a_backlog_is_of_its_own_time() -> None:
    history = History([FIRST])
    for second in range(300):
        at = now(second + 0.5)
        told(history, FIRST, at, batch(FIRST, [at], second), late=now(300) - at)
    assert history.seconds(FIRST, now(300), 300).steps.tolist() == [1.0] * 300


def test_an_agent_whose_clock_is_wrong_is_shifted() -> None:
    behind, ahead = History([FIRST]), History([FIRST])
    for second in range(40):
        at = now(second + 0.5)
        told(behind, FIRST, at - 100, batch(FIRST, [at - 100], second), late=100.0)
        told(ahead, FIRST, at + 100, batch(FIRST, [at + 100], second), late=-100.0)
    assert behind.seconds(FIRST, now(40), 20).steps.tolist() == [1.0] * 20
    assert ahead.seconds(FIRST, now(40), 40).steps.tolist() == [1.0] * 40


def test_last_steps_line_up_by_collective() -> None:
    history = History([FIRST, SECOND])
    told(history, FIRST, now(1), batch(FIRST, [now(0.1), now(0.2), now(0.3)], 5))
    told(history, SECOND, now(1), batch(SECOND, [now(0.1), now(0.21)], 5, compute=0.2))
    steps = history.recent_steps
    assert (steps.oldest, steps.newest) == (5, 7)
    lined = steps.aligned(7, 2)
    assert lined.tasks == (FIRST, SECOND) and lined.sequence.tolist() == [6, 7]
    assert lined.end == pytest.approx([now(0.2), now(0.3)])
    assert lined.phases[3, 0] == pytest.approx([0.1, 0.2]) and np.isnan(lined.phases[:, 1, 1]).all()
    assert lined.phases[3, 1, 0] == pytest.approx(0.1)


def test_a_restart_begins_anew() -> None:
    history = History([FIRST, SECOND])
    told(history, FIRST, now(1), batch(FIRST, [now(0.1)], 900, reduce=0.001))
    told(history, FIRST, now(2), batch(FIRST, [now(1.1)], 0, generation=2))
    told(history, SECOND, now(2), batch(SECOND, [now(1.1)], 901, reduce=0.001), batch(SECOND, [now(1.2)], 0, 2))
    steps = history.recent_steps
    assert (steps.oldest, steps.newest) == (0, 0)
    assert history.seconds(FIRST, now(2), 1).parts["transfer"] == pytest.approx([0.05])


def test_fast_steps_are_kept_within_bounds() -> None:
    tasks = [fakes.worker(index) for index in range(3)]
    history = History(tasks)
    for second in range(30):
        for task in tasks:
            ends = [now(second + millisecond / 1000) for millisecond in range(1000)]
            told(history, task, now(second + 1), batch(task, ends, second * 1000))
    steps = history.recent_steps
    assert steps.newest == 29_999 and steps.oldest is not None and steps.oldest >= 28_000
    assert history.seconds(tasks[0], now(30), 20).parts["transfer"] == pytest.approx([0.05] * 20)


def test_the_lags_of_several_tasks_at_once() -> None:
    history = History([FIRST, SECOND])
    told(history, SECOND, now(1), batch(SECOND, [now(0.1)]))
    lags = history.lags(now(1), 1, [FIRST, SECOND])
    own = 0.01 + 0.02 + 0.03 + 0.1
    assert lags.shape == (2, 1) and np.isnan(lags[0, 0]) and lags[1, 0] == pytest.approx(own)
    assert np.array_equal(history.lags(now(1), 1, [SECOND]), lags[1:])


def test_the_fold_feeds_it_and_a_snapshot_shows_it() -> None:
    from tfscale.console.engine.state import ClusterState

    spec = fakes.spec(2)
    state = ClusterState(spec, fakes.FakeAnalysis())
    for event in fakes.healthy_events(spec):
        state.fold(event)
    state.fold(SecondPassed(now(1)))
    snapshot = state.snapshot(now(1))
    assert snapshot.history is not None
    assert snapshot.history.seconds(FIRST, snapshot.at, 1).steps.tolist() == [3.0]
    assert snapshot.view(FIRST).status is not None and snapshot.view(FIRST).status.state is TaskState.RUNNING


def test_a_clock_that_is_set_by_decades_costs_nothing() -> None:
    history = History([FIRST])
    told(history, FIRST, now(1), batch(FIRST, [now(0.5), now(1.0)]))
    told(history, FIRST, now(2), batch(FIRST, [now(-1e9), now(1.5)], first=2))
    assert history.seconds(FIRST, now(2), 2).parts["transfer"] == pytest.approx([0.05, 0.05])


def test_steps_whose_ends_are_unknown_are_lined_up_all_the_same() -> None:
    history = History([FIRST, SECOND])
    for task in (FIRST, SECOND):
        told(history, task, now(1), batch(task, [np.nan, np.inf, 1e300]))
    last = history.recent_steps
    assert (last.newest, last.common, last.oldest) == (2, 2, 0)
    assert len(last.aligned(2, 3).sequence) == 0


def test_collectives_that_leap_cost_no_memory_and_older_ones_are_left_out() -> None:
    history = History([FIRST, SECOND])
    leap = replace(batch(FIRST, [now(0.2), now(0.4)]), sequence=array("Q", [3, 1 << 40]))
    told(history, FIRST, now(1), leap)
    told(history, SECOND, now(1), batch(SECOND, [now(0.2), now(0.4)]))
    assert history.recent_steps.oldest == 1 << 40


def test_what_is_too_large_or_impossible_is_not_drawn() -> None:
    history = History([FIRST])
    told(history, FIRST, now(0.9), batch(FIRST, [now(0.2)], compute=3e38), training=Training(loss=1e300))
    told(history, FIRST, now(1.9), batch(FIRST, [now(1.2)], first=1, compute=-1.0))
    seconds = history.seconds(FIRST, now(2), 2)
    assert (
        np.isnan(seconds.training["loss"][0])
        and np.isnan(seconds.step_time).all()
        and seconds.steps.tolist() == [1.0, 1.0]
    )
