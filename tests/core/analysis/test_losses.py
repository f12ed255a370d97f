"""Losses that are no numbers: whose, since when."""

from collections.abc import Callable
from dataclasses import replace

from tfscale.core.analysis.losses import not_finite
from tfscale.core.analysis.tasks import TaskView
from tfscale.core.records import Frame, TaskState, Training

View = Callable[..., TaskView]
MakeFrame = Callable[..., Frame]
LOST = Training(epoch=0, global_step=1_234, finite=False)


def test_the_first_frame_that_says_so_is_the_beginning(view: View, frame: MakeFrame) -> None:
    task = view("worker:0")
    for at in (10.0, 11.0, 12.0):
        task.fold(frame(at, training=LOST if at > 10 else replace(LOST, finite=True, loss=1.0)))
    (found,) = not_finite([task])
    assert (found.kind, found.subject, found.begin, found.severity) == ("not_finite", "worker:0", 11.0, "serious")
    assert "worker:0" in found.sentence and "1,234" in found.sentence


def test_where_several_say_so_nobody_is_to_blame(view: View) -> None:
    tasks = [view(f"worker:{index}", not_finite_since=10.0 + index) for index in range(2)]
    (found,) = not_finite(tasks)
    assert (found.subject, found.begin) == ("cluster", 10.0)


def test_a_number_again_or_a_new_attempt_or_an_end_is_the_end(view: View, frame: MakeFrame) -> None:
    task = view("worker:0", not_finite_since=10.0)
    task.fold(frame(12.0, training=replace(LOST, finite=True, loss=0.5)))
    assert not_finite([task]) == []
    ended = view("worker:0", not_finite_since=10.0)
    ended.status = replace(ended.status, state=TaskState.EXITED)
    assert not_finite([ended]) == []
