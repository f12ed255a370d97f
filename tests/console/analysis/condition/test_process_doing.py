from collections.abc import Callable

import pytest
from tfscale.console.analysis.condition.process_doing import doing
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.probe_status import ActivityKind
from tfscale.core.records.task_status import TaskState, TaskStatus

View = Callable[..., ObservedTask]


@pytest.mark.parametrize(
    ("changes", "kind", "clause"),
    [
        ({}, "unknown", ""),
        ({"cores": 0.01}, "idle", "its process waits for something, and computes nothing"),
        ({"cores": 1.96}, "at_work", "its process is at work (2.0 cores)"),
        ({"stopped": True, "activity": ActivityKind.CHECKPOINT}, "stopped", "a signal has stopped its process"),
        ({"activity": ActivityKind.CHECKPOINT, "cores": 1.0}, "checkpoint", "saving or restoring a checkpoint"),
        (
            {"activity": ActivityKind.IDLE, "cores": 0.0},
            "idle",
            "its process waits for something, and computes nothing",
        ),
        ({"heard": 90.0, "stopped": True}, "silent", "whether it runs is not known"),
        ({"status": TaskStatus(TaskState.STOPPING, 1, 1)}, "starting", "its task is stopping"),
    ],
)
def test_the_facts_of_now_go_before_those_of_before(
    view: View, changes: dict[str, object], kind: str, clause: str
) -> None:
    does = doing(view("worker:0", **changes), 100.0)
    assert (does.kind, does.clause) == (kind, clause)


def test_an_end_is_told_with_its_time_also_where_the_agent_has_gone_with_it(
    view: View, died: Callable[..., TaskStatus]
) -> None:
    does = doing(view("worker:0", status=died(99.0, signal=9), up=False), 200.0)
    assert does.kind == "ended" and does.clause.startswith("was killed by SIGKILL at ")
