"""Findings that end although what they were about is not as before: nothing good is told of it."""

from collections.abc import Callable
from dataclasses import replace

import fakes
import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.engine.timeline.event_text import end_text
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, Neighbour
from tfscale.core.records.task_status import TaskState, TaskStatus

MakeFrame = Callable[..., Frame]
Died = Callable[..., TaskStatus]
SPARE = Address("host-d", 7070)
LAST = Task(Role.WORKER, 2)


def ended(observer: Diagnostician, kind: str, at: float) -> Diagnosis:
    (over,) = [each for each in observer.diagnose(at).diagnoses if each.kind == kind and each.end is not None]
    return over


@pytest.fixture
def crashed(diagnostician: Callable[[int], Diagnostician], frame: MakeFrame, died: Died) -> Diagnostician:
    """Return the observer of two workers of which worker:1 has exited 1 a while ago."""
    observer = diagnostician(2)
    for second in range(20, 26):
        observer.observe("worker:0", frame(20.0))
        observer.observe("worker:1", frame(float(second), status=died(20.0, code=1)))
        found = observer.diagnose(float(second))
    assert [(each.kind, each.subject) for each in found.diagnoses] == [("crash", "worker:1")]
    return observer


def test_a_task_that_follows_another_does_not_run_again(crashed: Diagnostician, frame: MakeFrame, died: Died) -> None:
    crashed.observe("worker:0", frame(26.0, status=died(19.5, signal=9)))
    assert end_text(ended(crashed, "crash", 26.0)).startswith("told with another crash; until then it was so for ")


def test_a_task_runs_again_only_once_it_does(crashed: Diagnostician, frame: MakeFrame) -> None:
    again = TaskStatus(TaskState.RUNNING, 2, 1, started=27.0)
    crashed.observe("worker:1", frame(27.0, status=again))
    assert end_text(ended(crashed, "crash", 27.0)).startswith("runs again, after ")


def test_of_a_task_that_was_placed_on_another_host_its_first_host_is_not_heard_again(
    cluster: Callable[[int], ClusterSpec], frame: MakeFrame
) -> None:
    spec = replace(cluster(3), spares={SPARE: Address("host-d", 2222)})
    observer = Diagnostician(spec)
    for task in map(str, spec.tasks):
        observer.note_link(task, True, 1000.0)
        observer.describe(task, fakes.description(LAST))
    for at in range(1001, 1031):
        for name in ("worker:0", "worker:1", "worker:2"):
            if name != "worker:2" or at <= 1010:
                observer.observe(name, replace(frame(float(at)), host=neighbours(name, float(at))))
        if at == 1013:
            observer.note_link("worker:2", False, 1013.0)
        found = observer.diagnose(float(at))
    assert found.headline.startswith("worker:2's host does not answer to anyone")
    moved = Placement(2, {**spec.agents, LAST: SPARE}).to_json()
    observer.describe("worker:0", replace(fakes.description(LAST), placement=moved))
    observer.note_link("worker:2", True, 1031.0)
    assert end_text(ended(observer, "cut_off", 1031.0)).startswith(
        "its task was placed on another host; until then it was so for "
    )


def neighbours(name: str, at: float) -> HostSample:
    """Return the host of a task that has heard worker:2 until second 1010, and the others always."""
    heard = {other: at - 0.5 for other in ("worker:0", "worker:1", "worker:2") if other != name}
    if "worker:2" in heard:
        heard["worker:2"] = min(at, 1010.0) - 0.5
    answers = tuple(Neighbour(other, last, 0.001, last) for other, last in heard.items())
    return HostSample(0.5, 2, 1.0, 1 << 30, 8 << 30, 0, neighbours=answers)
