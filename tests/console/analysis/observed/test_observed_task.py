"""State of a task as its agent's frames leave it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.records.training import Training

MakeFrame = Callable[..., Frame]


def observed(*frames: Frame) -> ObservedTask:
    task = ObservedTask(Task.parse("worker:0"))
    for frame in frames:
        task.observe(frame)
    return task


def test_steps_and_collectives_move_it_forward(frame: MakeFrame, batch: Callable[..., StepBatch]) -> None:
    steps = frame(2.0, batch("worker:0", 0, 20), collective=Collective(20, 20))
    assert observed(steps).progressed == 1.0
    assert observed(steps, frame(3.0, collective=Collective(21, 21))).progressed == 3.0
    assert observed(steps, frame(3.0, collective=Collective(21, 20))).progressed == 1.0


def test_the_longest_gap_is_that_between_steps_after_the_warm_up(
    frame: MakeFrame, batch: Callable[..., StepBatch]
) -> None:
    first, later = batch("worker:0", 0, 4, end=[1.0, 9.0, 9.1, 9.2]), batch("worker:0", 5, 3, end=[9.5, 12.0, 12.1])
    assert observed(frame(10.0, first), frame(13.0, later)).longest_gap == 2.5


def test_an_activity_occupies_it_until_it_has_ended(frame: MakeFrame, batch: Callable[..., StepBatch]) -> None:
    steps = frame(2.0, batch("worker:0", 0, 20))
    saving = observed(steps, frame(5.0, activities=(Activity(ActivityKind.CHECKPOINT, 2.0, None),)))
    assert (saving.activity, saving.active) == (ActivityKind.CHECKPOINT, 1.0)
    saved = observed(steps, frame(5.0, activities=(Activity(ActivityKind.CHECKPOINT, 2.0, 4.0),)), frame(6.0))
    assert (saved.activity, saved.active) == (None, 4.0)


def test_another_attempt_begins_with_nothing(
    frame: MakeFrame, batch: Callable[..., StepBatch], status: Callable[..., TaskStatus]
) -> None:
    bad = frame(2.0, batch("worker:0", 0, 20), training=Training(global_step=7, finite=False))
    task = observed(bad, replace(bad, at=3.0))
    assert (task.not_finite_since, task.not_finite_step) == (2.0, 7)
    task.observe(frame(9.0, status=status(attempt=2)))
    assert (task.progressed, task.active, task.longest_gap, task.not_finite_since) == (None, None, 0.0, None)
