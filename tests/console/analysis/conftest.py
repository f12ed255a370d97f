from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus


@pytest.fixture
def cluster() -> Callable[..., ClusterSpec]:
    """Return a function that makes a spec of this many workers, and further roles as TF_CONFIG writes them."""

    def make(workers: int, **roles: list[str]) -> ClusterSpec:
        addresses = [f"10.0.0.{index + 1}:2222" for index in range(workers)]
        document = {"cluster": {"worker": addresses, **roles}}
        return parse_cluster(document, name="test", where="test", base=Path())

    return make


@pytest.fixture
def diagnostician(cluster: Callable[..., ClusterSpec]) -> Callable[[int], Diagnostician]:
    """Return a function that makes a Diagnostician in contact with all its agents since time 0."""

    def make(workers: int) -> Diagnostician:
        made = Diagnostician(cluster(workers))
        for index in range(workers):
            made.note_link(f"worker:{index}", True, 0.0)
        return made

    return make


@pytest.fixture
def names(diagnostician: Callable[[int], Diagnostician]) -> Callable[[Simulation], list[tuple[str, float, float]]]:
    """Return a function that lists every straggler of a simulation: (subject, first seen at, begin)."""

    def watch(simulation: Simulation) -> list[tuple[str, float, float]]:
        observer = diagnostician(simulation.workers)
        seen: dict[tuple[str, float], float] = {}
        for task, frame in simulation.frames():
            observer.observe(task, frame)
            if task == f"worker:{simulation.workers - 1}":
                for each in observer.diagnose(frame.at).diagnoses:
                    if each.kind == "straggler":
                        seen.setdefault((each.subject, each.begin), frame.at)
        return [(subject, at, begin) for (subject, begin), at in seen.items()]

    return watch


@pytest.fixture
def status() -> Callable[..., TaskStatus]:
    """Return a function that makes a running task's status with some changes."""

    def make(state: TaskState = TaskState.RUNNING, **changes: object) -> TaskStatus:
        return replace(TaskStatus(state, generation=1, attempt=1, started=0.0), **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture
def died() -> Callable[..., TaskStatus]:
    """Return a function that makes the status of a task whose process ended by itself."""

    def make(at: float, code: int | None = None, signal: int | None = None, **changes: object) -> TaskStatus:
        ended = TaskStatus(TaskState.EXITED, 1, 1, started=0.0, exit=Exit(code, signal, at))
        return replace(ended, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture
def view() -> Callable[..., ObservedTask]:
    """Return a function that makes a running, reporting task as it is known at second 100."""

    def make(name: str, **changes: object) -> ObservedTask:
        made = ObservedTask(
            Task.parse(name),
            up=True,
            since=0.0,
            at=100.0,
            status=TaskStatus(TaskState.RUNNING, 1, 1, started=0.0),
            probe=ProbeStatus(ProbeState.WAITING),
            collective=Collective(10, 10),
        )
        for field, value in changes.items():
            setattr(made, field, value)
        return made

    return make


@pytest.fixture
def batch() -> Callable[..., StepBatch]:
    """Return a function that makes steps of equal phases (10 ms each), one every 50 ms, with some changes."""

    def make(subject: str, first: int, count: int, **changes: object) -> StepBatch:
        phase = [0.01] * count
        made = StepBatch(
            generation=1,
            attempt=1,
            reporter=subject,
            subject=subject,
            sequence=range(first, first + count),
            end=[0.05 * (first + row + 1) for row in range(count)],
            global_step=range(first, first + count),
            update=phase,
            host=phase,
            input=phase,
            compute=phase,
            reduce=phase,
        )
        return replace(made, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture
def frame(status: Callable[..., TaskStatus]) -> Callable[..., Frame]:
    """Return a function that makes a frame of a running task."""

    def make(at: float, *steps: StepBatch, **changes: object) -> Frame:
        made = Frame(int(at), at, status(), ProbeStatus(ProbeState.MEASURING, examples_per_step=64), steps=steps)
        return replace(made, **changes)  # type: ignore[arg-type]

    return make
