from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.starting import starting
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.text import clock

MakeFrame = Callable[..., Frame]
WAITING = ProbeStatus(ProbeState.WAITING)
IMPORTS = {"probe": ProbeStatus(ProbeState.LOADED)}
INSIDE = Collective(1, 0)


@pytest.fixture
def begun(view: Callable[..., ObservedTask], frame: MakeFrame) -> Callable[..., list[ObservedTask]]:
    """Return a function that makes workers from the newest frame of each, at a time after their start."""

    def make(at: float, *changes: dict[str, object]) -> list[ObservedTask]:
        tasks = [view(f"worker:{index}") for index in range(len(changes))]
        for task, change in zip(tasks, changes, strict=True):
            task.observe(frame(at, **{"probe": None, **change}))
        return tasks

    return make


Begun = Callable[..., list[ObservedTask]]


def test_the_slowest_tasks_say_how_far_a_start_is(begun: Begun) -> None:
    waits = {"probe": WAITING, "collective": INSIDE}
    builds = {"probe": WAITING, "activities": (Activity(ActivityKind.COMPILE, 11.0),)}
    assert starting(begun(4.0, {}, {})) == "starting for 4 s: worker:0 and worker:1 have just begun"
    assert starting(begun(2.0, {}, IMPORTS)) == "starting for 2 s: worker:0 has just begun"
    assert starting(begun(12.0, {}, IMPORTS)) == "starting for 12 s: worker:0 runs, and has not reported so far"
    early = {"probe": ProbeStatus(ProbeState.EXPECTED)}
    assert starting(begun(25.0, early, early)) == (
        "starting for 25 s: worker:0 and worker:1 run, and have not imported TensorFlow so far"
    )
    assert starting(begun(12.0, IMPORTS, waits)) == (
        "starting for 12 s: worker:0 imports TensorFlow, or prepares its training; worker:1 waits in the first "
        "all-reduce"
    )
    assert starting(begun(20.0, builds, {"probe": WAITING})) == "starting for 20 s: worker:1 prepares its training"
    assert starting(begun(21.0, builds, builds)) == (
        "starting for 21 s: worker:0 and worker:1 build their graphs (a function is traced)"
    )
    assert starting(begun(22.0, waits, waits)) == (
        "starting for 22 s: worker:0 and worker:1 are in the first all-reduce"
    )


def test_a_restart_tells_its_reason_and_the_newest_checkpoint(begun: Begun) -> None:
    why = "restarted by itself after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h"
    again = TaskStatus(TaskState.RUNNING, 2, 1, started=100.0, reason=why)
    saved = {"status": again, "probe": replace(WAITING, checkpoint=90.0)}
    assert starting(begun(112.0, {"status": again, **IMPORTS}, saved)) == (
        f"starting again for 12 s ({why}; the newest checkpoint is of {clock(90.0)}): "
        "worker:0 imports TensorFlow, or prepares its training"
    )


def test_a_restart_after_a_failure_is_a_recovery_from_the_order_on(
    view: Callable[..., ObservedTask], frame: MakeFrame
) -> None:
    why = "restarted by itself after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h"
    asked, killed = Exit(None, 15, 103.0, requested=True), Exit(None, 9, 100.0)
    tasks = [view(f"worker:{index}") for index in range(2)]
    for task, end in zip(tasks, (asked, killed), strict=True):
        ended = TaskStatus(TaskState.EXITED, 1, 1, exit=end)
        task.observe(frame(103.0, status=ended, probe=replace(WAITING, checkpoint=90.0)))
        task.observe(frame(104.0, status=TaskStatus(TaskState.STARTING, 2, 1, reason=why), probe=None))
    again = f"({why}; the newest checkpoint is of {clock(90.0)})"
    assert starting(tasks) == (f"recovering, 4 s after the failure {again}: worker:0 and worker:1 are being started")
    for task in tasks:
        task.observe(frame(112.0, status=TaskStatus(TaskState.RUNNING, 2, 1, started=105.0, reason=why), **IMPORTS))
    assert starting(tasks) == (
        f"recovering, 12 s after the failure {again}: worker:0 and worker:1 import TensorFlow, or prepare their "
        "training"
    )


def test_of_a_cluster_with_a_task_that_is_not_there_it_says_nothing(begun: Begun) -> None:
    both = begun(12.0, {}, {})
    assert starting([both[0], replace(both[1], status=TaskStatus(TaskState.PENDING))]) is None
    assert starting([both[0], replace(both[1], up=False)]) is None
    assert starting([both[0], replace(both[1], at=31.0)]) is None
