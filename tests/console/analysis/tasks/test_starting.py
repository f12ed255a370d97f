from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.condition.start_stages import Stage, StartWatch
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.starting import starting
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import IMPORTING, Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.text import clock

MakeFrame = Callable[..., Frame]
WAITING = ProbeStatus(ProbeState.WAITING)
IMPORTS = {"probe": ProbeStatus(ProbeState.LOADED, f"its process 7 {IMPORTING}")}
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


def starts_as(tasks: list[ObservedTask]) -> str | None:
    return starting(tasks, {})


def test_the_slowest_tasks_say_how_far_a_start_is(begun: Begun) -> None:
    waits = {"probe": WAITING, "collective": INSIDE}
    builds = {"probe": WAITING, "activities": (Activity(ActivityKind.COMPILE, 11.0),)}
    assert starts_as(begun(4.0, {}, {})) == "starting for 4 s: worker:0 and worker:1 have just begun"
    assert starts_as(begun(2.0, {}, IMPORTS)) == "starting for 2 s: worker:0 has just begun"
    assert starts_as(begun(12.0, {}, IMPORTS)) == "starting for 12 s: worker:0 runs, and has not reported so far"
    early = {"probe": ProbeStatus(ProbeState.EXPECTED)}
    assert starts_as(begun(25.0, early, early)) == (
        "starting for 25 s: worker:0 and worker:1 run, and have not imported TensorFlow so far"
    )
    assert starts_as(begun(12.0, IMPORTS, waits)) == (
        "starting for 12 s: worker:0 imports TensorFlow; worker:1 waits in the first all-reduce"
    )
    assert starts_as(begun(20.0, builds, {"probe": WAITING})) == "starting for 20 s: worker:1 prepares its training"
    assert starts_as(begun(21.0, builds, builds)) == (
        "starting for 21 s: worker:0 and worker:1 build their graphs, tracing functions"
    )
    assert starts_as(begun(22.0, waits, waits)) == (
        "starting for 22 s: worker:0 and worker:1 are in the first all-reduce"
    )


def test_a_restart_tells_its_reason_and_the_newest_checkpoint(begun: Begun) -> None:
    why = "restarted by itself after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h"
    again = TaskStatus(TaskState.RUNNING, 2, 1, started=100.0, reason=why)
    saved = {"status": again, "probe": replace(WAITING, checkpoint=90.0)}
    assert starts_as(begun(112.0, {"status": again, **IMPORTS}, saved)) == (
        f"starting again for 12 s ({why}; the newest checkpoint is of {clock(90.0)}): worker:0 imports TensorFlow"
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
    assert starts_as(tasks) == (f"recovering, 4 s after the failure {again}: worker:0 and worker:1 are being started")
    for task in tasks:
        task.observe(frame(112.0, status=TaskStatus(TaskState.RUNNING, 2, 1, started=105.0, reason=why), **IMPORTS))
    assert starts_as(tasks) == (f"recovering, 12 s after the failure {again}: worker:0 and worker:1 import TensorFlow")


def test_of_a_cluster_with_a_task_that_is_not_there_it_says_nothing(begun: Begun) -> None:
    both = begun(12.0, {}, {})
    assert starts_as([both[0], replace(both[1], status=TaskStatus(TaskState.PENDING))]) is None
    assert starts_as([both[0], replace(both[1], up=False)]) is None
    assert starts_as([both[0], replace(both[1], at=31.0)]) is None


def test_the_seconds_of_each_stage_are_those_between_the_frames(
    view: Callable[..., ObservedTask], frame: MakeFrame
) -> None:
    task, watch = view("worker:0"), StartWatch()
    imported = ProbeStatus(ProbeState.LOADED, "its process 7 has imported TensorFlow, and has reported no training")
    building = {"probe": WAITING, "activities": (Activity(ActivityKind.COMPILE, 16.0),)}
    frames = [
        (1.0, {"probe": None}),
        (2.0, IMPORTS),
        (12.0, {"probe": imported}),
        (16.0, building),
        (18.0, {"probe": WAITING}),
        (19.0, building),
        (22.5, building),
    ]
    for at, change in frames:
        task.observe(frame(at, **change))
        watch.observe(task)
    start = watch.starts()["worker:0"]
    assert dict(start.seconds) == {
        Stage.BEGUN: 2.0,
        Stage.IMPORTING: 10.0,
        Stage.PREPARING: 5.0,
        Stage.BUILDING: 5.5,
    }, "the first second is that of the process's own age"
    assert starting([task], watch.starts()) == (
        "starting for 22 s: worker:0 builds its graph, tracing a function (5 s)"
    )
    task.observe(frame(23.0, status=TaskStatus(TaskState.RUNNING, 2, 1, started=3.0), **IMPORTS))
    watch.observe(task)
    assert watch.starts()["worker:0"].seconds == {}, "what it did before its first frame is not known"
    task.progressed = 24.0
    watch.observe(task)
    assert not watch.starts()
