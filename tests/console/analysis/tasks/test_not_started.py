from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_started import not_started
from tfscale.core.records.task_status import TaskState, TaskStatus

View = Callable[..., ObservedTask]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"up": False, "since": 3.0}, "its agent cannot be reached since "),
        ({"status": TaskStatus(TaskState.PENDING)}, "its task was not started"),
        (
            {"status": TaskStatus(TaskState.PENDING, reason="2 of 3 agents must agree")},
            "its task was not started: 2 of 3 agents must agree",
        ),
        ({"probe": None}, "its process runs, but does not report"),
        ({"probe": None, "stopped": True}, "a signal has stopped its process"),
        ({"status": None}, "its agent has not said anything"),
    ],
)
def test_who_has_not_joined_is_named_with_the_reason(view: View, changes: dict[str, object], why: str) -> None:
    (late,) = not_started([view("worker:0"), view("worker:1", **changes)], now=31.0)
    assert (late.kind, late.subject, late.begin) == ("not_started", "worker:1", 0.0)
    assert f"worker:1 has not joined: {why}" in late.sentence
    assert late.sentence.endswith("worker:0 waits for it, 31 s now")


def test_nobody_is_named_early_or_once_there_was_a_step_or_when_nobody_waits(view: View) -> None:
    missing = view("worker:1", up=False)
    assert not_started([view("worker:0"), missing], now=29.0) == []
    assert not_started([view("worker:0", progressed=20.0), missing], now=100.0) == []
    assert not_started([view("worker:0", probe=None), missing], now=100.0) == []
    assert not_started([view("worker:0"), view("worker:1")], now=100.0) == []


def test_a_process_at_work_is_not_missing_for_ten_minutes(view: View) -> None:
    joined, imports = view("worker:0"), view("worker:1", probe=None, cores=0.9)
    assert not_started([joined, imports], now=100.0) == []
    assert not_started([joined, replace(imports, cores=0.0, idle_since=91.0)], now=100.0) == []
    (late,) = not_started([joined, replace(imports, cores=0.0, idle_since=80.0)], now=100.0)
    assert late.subject == "worker:1"
    (late,) = not_started([joined, replace(imports, at=601.0)], now=601.0)
    assert late.subject == "worker:1"


def test_a_parameter_server_joins_by_running_and_an_evaluator_need_not(view: View) -> None:
    others = [view("ps:0", probe=None), view("evaluator:0", up=False)]
    assert not_started([view("worker:0"), *others], now=100.0) == []
