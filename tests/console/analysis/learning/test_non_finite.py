"""Losses that are no finite numbers: the task, and the begin."""

from collections.abc import Callable
from dataclasses import replace

from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.learning.non_finite import not_finite
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.frame import Frame
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.records.training import Training

View = Callable[..., ObservedTask]
MakeFrame = Callable[..., Frame]
Status = Callable[..., TaskStatus]
LOST = Training(epoch=0, global_step=1_234, finite=False)


def test_the_first_frame_that_says_so_is_the_beginning(view: View, frame: MakeFrame) -> None:
    task = view("worker:0")
    for at in (10.0, 11.0, 12.0, 13.0, 14.0):
        task.observe(frame(at, training=LOST if at > 10 else replace(LOST, finite=True, loss=1.0)))
    (found,) = not_finite([task])
    assert (found.kind, found.subject, found.begin, found.severity) == ("not_finite", "worker:0", 11.0, "serious")
    assert "worker:0" in found.sentence and "1,234" in found.sentence


def test_where_several_say_so_nobody_is_to_blame(view: View) -> None:
    tasks = [view(f"worker:{index}", not_finite_since=10.0 + index) for index in range(2)]
    (found,) = not_finite(tasks)
    assert (found.subject, found.begin) == ("cluster", 10.0)
    for task, step in zip(tasks, (None, 5), strict=True):
        task.not_finite_step = step
    assert "at step" not in not_finite(tasks)[0].sentence


def test_a_number_again_or_a_new_attempt_is_the_end(view: View, frame: MakeFrame, status: Status) -> None:
    for end in (
        frame(12.0, training=replace(LOST, finite=True, loss=0.5)),
        frame(12.0, training=None, status=status(attempt=2)),
    ):
        task = view("worker:0", not_finite_since=10.0)
        task.observe(end)
        assert not_finite([task]) == []


def test_what_is_not_said_any_more_and_the_end_of_the_task_change_nothing(
    view: View, frame: MakeFrame, status: Status
) -> None:
    task = view("worker:0", not_finite_since=10.0)
    for last in (frame(11.0, training=None), frame(12.0, training=Training(epoch=1))):
        task.observe(last)
    task.observe(frame(13.0, training=LOST, status=status(TaskState.EXITED)))
    (found,) = not_finite([task])
    assert found.begin == 10.0


def test_workers_that_say_so_one_after_the_other_are_one_diagnosis(
    diagnostician: Callable[[int], Diagnostician], frame: MakeFrame
) -> None:
    observer = diagnostician(2)
    told = set()
    for second in range(1, 12):
        for index in range(2):
            at = second + 0.5 * index
            training = replace(LOST, finite=second <= 3 + index)
            observer.observe(f"worker:{index}", frame(at, training=training))
            told |= {(each.kind, each.subject, each.begin) for each in observer.diagnose(at).diagnoses}
    assert told == {("not_finite", "cluster", 4.0)}
    assert observer.diagnose(12.0).headline.startswith("the loss has not been a number since ")
