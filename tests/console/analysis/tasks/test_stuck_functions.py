from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.stuck_functions import stuck_functions
from tfscale.core.records.step_batch import Coordinator, WorkerFunctions
from tfscale.core.records.task_status import TaskState, TaskStatus

View = Callable[..., ObservedTask]
NOW = 100.0


def functions(index: int, since: float | None, **changes: Any) -> WorkerFunctions:
    return replace(WorkerFunctions(f"worker:{index}", 100, 0, busy=1.0, idle=0.0, since=since), **changes)


def cluster(view: View, *workers: WorkerFunctions, at: float = NOW) -> list[ObservedTask]:
    chief = view("chief:0", coordinator=Coordinator(at, 0, 0.0, None, workers))
    return [chief, *(view(each.worker) for each in workers), view("ps:0")]


def test_a_worker_that_does_not_answer_is_stuck(view: View) -> None:
    (hang,) = stuck_functions(cluster(view, functions(0, 99.9), functions(1, 30.0)))
    assert (hang.kind, hang.subject, hang.begin, hang.severity) == ("hang", "worker:1", 30.0, "critical")
    assert "worker:1 has been stuck for 70 s (since " in hang.sentence


def test_where_none_answers_it_is_something_that_they_share(view: View) -> None:
    (hang,) = stuck_functions(cluster(view, functions(0, 30.0), functions(1, 31.0)))
    assert (hang.subject, hang.begin) == ("cluster", 31.0)
    assert "none of 2 workers has answered" in hang.sentence and "look at ps:0" in hang.sentence


def test_a_worker_alone_is_the_one(view: View) -> None:
    assert [hang.subject for hang in stuck_functions(cluster(view, functions(0, 30.0)))] == ["worker:0"]


def test_who_has_nothing_to_do_neither_hangs_nor_clears_the_servers(view: View) -> None:
    (hang,) = stuck_functions(cluster(view, functions(0, None), functions(1, 30.0)))
    assert hang.subject == "worker:1"


@pytest.mark.parametrize(
    "changes",
    [
        {"since": 45.0},
        {"since": None},
        {"busy": 400.0},
        {"finished": 0, "busy": 0.0},
    ],
)
def test_it_is_no_hang_while_it_may_be_normal(view: View, changes: dict[str, Any]) -> None:
    assert stuck_functions(cluster(view, functions(0, 99.9), functions(1, **{"since": 30.0, **changes}))) == []


def test_a_dead_worker_is_a_crash(view: View) -> None:
    views = cluster(view, functions(0, 99.9), functions(1, 30.0))
    views[2] = view("worker:1", status=TaskStatus(TaskState.EXITED, 1, 1))
    assert stuck_functions(views) == []


def test_a_chief_that_says_nothing_blames_nobody(view: View) -> None:
    assert stuck_functions(cluster(view, functions(0, 30.0), functions(1, 30.0), at=90.0)) == []


def test_a_stopped_server_is_named_early(view: View) -> None:
    views = cluster(view, functions(0, 88.0), functions(1, 85.0))
    assert stuck_functions(views) == []
    views[-1].stopped = True
    (hang,) = stuck_functions(views)
    assert (hang.subject, hang.begin) == ("ps:0", 85.0)
    assert "worker:0 and worker:1 wait for its variables" in hang.sentence


def test_a_stopped_server_that_nobody_waits_for_blames_no_worker(view: View) -> None:
    views = cluster(view, functions(0, 99.9), functions(1, 85.0))
    views[-1].stopped = True
    assert stuck_functions(views) == []


def test_a_stopped_worker_is_named_early(view: View) -> None:
    views = cluster(view, functions(0, 99.9), functions(1, 85.0))
    views[2].stopped = True
    (hang,) = stuck_functions(views)
    assert hang.subject == "worker:1"
    assert "a signal has stopped its process" in hang.sentence


def test_whoever_is_stopped_is_named_alone_although_others_wait_too(view: View) -> None:
    views = cluster(view, functions(0, 30.0), functions(1, 29.0))
    views[1].stopped = True
    assert [hang.subject for hang in stuck_functions(views)] == ["worker:0"]
