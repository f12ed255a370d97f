"""Lines about functions on the page of a task under ParameterServerStrategy."""

from dataclasses import replace

import fakes
import pytest
from tfscale.console.engine.events import FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.widgets.panes.worker_functions import facts
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.step_batch import Coordinator, ServerTraffic, WorkerFunctions

TASKS = [Task.parse(name) for name in ("chief:0", "worker:0", "worker:1", "ps:0")]
AT = fakes.NOW


def workers() -> tuple[WorkerFunctions, ...]:
    traffic = (ServerTraffic("ps:0", 4_100_000, 4_200_000),)
    return (
        WorkerFunctions("worker:0", 1000, 0, busy=12.0, idle=3.0, since=AT - 0.01, traffic=traffic),
        WorkerFunctions("worker:1", 150, 2, busy=10.0, idle=0.0, since=AT - 75.0),
    )


def snapshot(coordinator: Coordinator | None) -> Snapshot:
    addresses = {task: Address("127.0.0.1", 2000 + number) for number, task in enumerate(TASKS)}
    state = ClusterState(ClusterSpec("test", addresses, addresses), fakes.FakeAnalysis(fakes.Findings((), "")))
    for task in TASKS:
        told = coordinator if str(task) == "chief:0" else None
        state.fold(FrameArrived(AT, task, replace(fakes.frame(task), coordinator=told, steps=())))
    return state.snapshot(AT)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("chief:0", [("functions", "1,150 executed   7 waiting for a worker   the program waits for them since 12 s")]),
        (
            "worker:0",
            [
                ("functions", "1,000 executed   12.0 ms each   20% of the time without one"),
                ("ps:0", "4.10 MB pulled   4.20 MB pushed"),
            ],
        ),
        (
            "worker:1",
            [
                (
                    "functions",
                    "150 executed   66.7 ms each   0% of the time without one   2 failed   no answer for 1 m 15 s",
                )
            ],
        ),
        ("ps:0", [("worker:0", "4.10 MB pulled   4.20 MB pushed")]),
    ],
)
def test_each_task_says_its_part(task: str, said: list[tuple[str, str]]) -> None:
    seen = snapshot(Coordinator(AT, 7, 30.0, AT - 12.0, workers()))
    assert list(facts(seen.view(Task.parse(task)), seen)) == said


def test_without_a_coordinator_there_is_nothing_to_say() -> None:
    seen = snapshot(None)
    assert [list(facts(view, seen)) for view in seen.tasks] == [[]] * 4
