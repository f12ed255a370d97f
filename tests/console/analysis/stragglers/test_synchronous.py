"""Subjects that meet in the same collective, and which of them are compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.analysis.stragglers.synchronous import SynchronousSubjects
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus

Batch = Callable[..., StepBatch]
View = Callable[..., ObservedTask]
COUNT = 400


@pytest.fixture
def subjects(batch: Batch) -> SynchronousSubjects:
    """Return three workers with 20 s of steps, of which the last computes 30 ms longer."""
    made = SynchronousSubjects(Rule())
    for index, compute in enumerate((0.01, 0.01, 0.04)):
        columns = {"compute": [compute] * COUNT, "reduce": [0.05 - compute] * COUNT}
        made.table.add(batch(f"worker:{index}", 0, COUNT, **columns))
    return made


def judged(subjects: SynchronousSubjects, *tasks: ObservedTask) -> list[str]:
    subjects.judge({task.name: task for task in tasks})
    return [diagnosis.subject for diagnosis in subjects.diagnoses]


def test_the_slow_one_is_named_and_its_cost_is_that_of_the_step(subjects: SynchronousSubjects, view: View) -> None:
    assert judged(subjects, *(view(f"worker:{index}") for index in range(3))) == ["worker:2"]
    assert subjects.step_time() == pytest.approx(0.08)
    assert subjects.slowdown() == pytest.approx(0.08 / 0.05)
    assert subjects.rate() == pytest.approx(20.0)
    assert subjects.counted == (subjects.table, ("worker:0", "worker:1", "worker:2"), "")
    assert list(subjects.figures) == ["worker:2"]


def test_a_task_that_has_ended_or_starts_anew_is_not_compared(subjects: SynchronousSubjects, view: View) -> None:
    ended = TaskStatus(TaskState.EXITED, 1, 1, started=0.0)
    anew = TaskStatus(TaskState.RUNNING, 1, 2, started=0.0)
    for status in (ended, anew):
        assert judged(subjects, view("worker:0"), view("worker:1"), view("worker:2", status=status)) == []
        assert subjects.window.subjects == ("worker:0", "worker:1")


def test_a_subject_whose_frames_do_not_arrive_is_not_waited_for(
    subjects: SynchronousSubjects, view: View, batch: Batch
) -> None:
    for index in (0, 2):
        subjects.table.add(batch(f"worker:{index}", COUNT, COUNT))
    judged(subjects, *(view(f"worker:{index}") for index in range(3)))
    assert subjects.window.subjects == ("worker:0", "worker:2")


def test_a_straggler_in_a_later_process_of_its_attempt_is_named_and_the_rate_is_its_own(
    batch: Batch, view: View
) -> None:
    subjects, tasks = SynchronousSubjects(Rule()), [view(f"worker:{index}") for index in range(3)]
    for index in range(3):
        subjects.table.add(batch(f"worker:{index}", 0, COUNT, part=1 + index))
    assert judged(subjects, *tasks) == []
    assert subjects.rate() == pytest.approx(20.0)
    for first in range(0, COUNT, 10):
        for index, compute in enumerate((0.01, 0.01, 0.11)):
            columns = {"compute": [compute] * 10, "reduce": [0.12 - compute] * 10}
            ends = [0.05 * COUNT + 10.0 + 0.15 * step for step in range(first, first + 10)]
            subjects.table.add(batch(f"worker:{index}", first, 10, part=10 + index, end=ends, **columns))
    assert judged(subjects, *tasks) == ["worker:2"]
    assert subjects.rate() == pytest.approx(1 / 0.15)
    assert subjects.table.newest("worker:2") == COUNT - 1


def test_without_running_tasks_nothing_is_known(subjects: SynchronousSubjects) -> None:
    assert judged(subjects) == []
    assert (subjects.step_time(), subjects.slowdown(), subjects.rate()) == (None, None, None)
