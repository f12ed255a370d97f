"""Workers of ParameterServerStrategy, each at its own pace: the slow one is named, and costs its own share only."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.console.sources.simulation.step_phases import SHARES
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, Pressure
from tfscale.core.records.step_batch import Coordinator, StepBatch, WorkerFunctions
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus

Make = Callable[..., ClusterSpec]
Watch = Callable[..., list[Findings]]
RUNNING = TaskStatus(TaskState.RUNNING, 1, 1, started=0.0)


def steps(
    worker: int, seconds: float, step: float, change: Mapping[str, float], begin: float, noise: float
) -> StepBatch:
    """Return all steps of one worker: `step` seconds each by itself, with `change` more in phases from `begin` on."""
    random = np.random.default_rng(worker)
    count = int(2 * seconds / step)
    drift = np.exp(noise * random.standard_normal(count))
    columns = {phase: share * step * drift for phase, share in SHARES.items()}
    columns["host"] = np.full(count, 0.1 * step)
    late = np.cumsum(sum(columns.values())) > begin
    for phase, extra in change.items():
        columns[phase] = columns[phase] + extra * late
    end = np.cumsum(sum(columns.values()))
    kept = int(np.searchsorted(end, seconds))
    return StepBatch(
        generation=1,
        attempt=1,
        reporter="chief:0",
        subject=f"worker:{worker}",
        sequence=range(kept),
        end=array("d", end[:kept]),
        **{phase: array("f", column[:kept]) for phase, column in columns.items()},
    )


def within(whole: StepBatch, begin: float, end: float) -> StepBatch:
    low, high = np.searchsorted(whole.end, [begin, end])
    names = ("sequence", "end", *SHARES)
    return replace(whole, **{name: getattr(whole, name)[low:high] for name in names})


def frames(batches: list[StepBatch], seconds: int, late: float = 0.0) -> Iterator[tuple[str, Frame]]:
    """Yield frames in which the chief's agent reports all workers each second, worker 0 `late` seconds late."""
    for second in range(1, seconds + 1):
        for worker in range(len(batches)):
            yield f"worker:{worker}", Frame(second, float(second), RUNNING)
        shift = [late if worker == 0 else 0.0 for worker in range(len(batches))]
        told = tuple(within(each, second - 1 - ago, second - ago) for each, ago in zip(batches, shift, strict=True))
        functions = tuple(WorkerFunctions(each.subject, 10, 0, 1.0, 0.0) for each in batches)
        coordinator = Coordinator(float(second), 3, 0.0, None, functions)
        yield "chief:0", Frame(second, float(second), RUNNING, steps=told, coordinator=coordinator)


@pytest.fixture
def watch(cluster: Make) -> Watch:
    """Return a function that diagnoses workers second by second; those in `slow` take longer from `begin` on."""

    def run(
        workers: int,
        slow: Mapping[int, Mapping[str, float]] | None = None,
        seconds: int = 60,
        *,
        begin: float = 20.0,
        step: float = 0.02,
        noise: float = 0.05,
        late: float = 0.0,
        host: Mapping[int, HostSample] | None = None,
    ) -> list[Findings]:
        observer = Diagnostician(cluster(workers, chief=["10.0.1.1:1"], ps=["10.0.2.1:1"]))
        for name in ("chief:0", "ps:0", *(f"worker:{index}" for index in range(workers))):
            observer.note_link(name, True, 0.0)
        batches = [steps(each, seconds, step, (slow or {}).get(each, {}), begin, noise) for each in range(workers)]
        said = []
        for task, frame in frames(batches, seconds, late):
            index = int(task.partition(":")[2])
            sample = (host or {}).get(index) if task.startswith("worker") else None
            observer.observe(task, replace(frame, host=sample))
            if task == "chief:0":
                said.append(observer.diagnose(frame.at))
        return said

    return run


def stragglers(said: list[Findings]) -> dict[str, tuple[float, Diagnosis]]:
    """Return (second of the first diagnosis, newest diagnosis) of each straggler that was ever named."""
    found: dict[str, tuple[float, Diagnosis]] = {}
    for second, findings in enumerate(said, start=1):
        for each in findings.diagnoses:
            if each.kind == "straggler":
                found[each.subject] = (found.get(each.subject, (float(second), each))[0], each)
    return found


@pytest.mark.parametrize(("workers", "window"), [(2, 10.0), (3, 10.0), (8, 5.0)])
@pytest.mark.parametrize("noise", [0.02, 0.10])
def test_the_slow_worker_is_named_in_time_and_stays_so_however_far_it_falls_behind(
    watch: Watch, workers: int, window: float, noise: float
) -> None:
    said = watch(workers, {1: {"compute": 0.06}}, seconds=120, noise=noise)
    ((subject, (second, straggler)),) = stragglers(said).items()
    assert subject == "worker:1"
    assert second <= 20 + window + 2
    assert straggler.begin == pytest.approx(20, abs=2.0)
    assert straggler.evidence["phase"] == "compute"
    assert straggler.evidence["excess"] == pytest.approx(0.06, rel=0.1)
    assert straggler.end is None
    assert said[-1].subjects["worker:1"].ratio == pytest.approx(0.079 / 0.019, rel=0.05)


def test_it_costs_its_own_share_and_no_more(watch: Watch) -> None:
    said = watch(4, {2: {"compute": 0.021}}, noise=0.02)
    (straggler,) = (each for _, each in stragglers(said).values())
    cost = 1 - (3 + 0.5) / 4
    assert straggler.evidence["slowdown"] == pytest.approx(1 / (1 - cost), rel=0.02)
    assert said[-1].slowdown == pytest.approx(1 / (1 - cost), rel=0.02)
    assert straggler.sentence.startswith("worker:2 has been slow for ")
    assert ". Nobody waits for it: it makes " in straggler.sentence
    told = 1 - 1 / float(straggler.evidence["slowdown"] or 0.0)
    assert straggler.sentence.endswith(f"the cluster loses {told:.0%}.")
    assert straggler.severity == "warning"


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.15])
@pytest.mark.parametrize(("workers", "step"), [(2, 0.02), (3, 0.1), (8, 0.02), (8, 0.5)])
def test_nobody_is_named_among_equal_workers(watch: Watch, workers: int, step: float, noise: float) -> None:
    assert stragglers(watch(workers, seconds=150, step=step, noise=noise)) == {}


def test_waiting_for_functions_makes_nobody_slow(watch: Watch) -> None:
    assert stragglers(watch(3, {1: {"host": 0.05}})) == {}


def test_a_worker_of_whom_the_chief_hears_late_is_no_slower(watch: Watch) -> None:
    assert stragglers(watch(3, late=3.0)) == {}
    assert set(stragglers(watch(3, {0: {"input": 0.03}}, late=3.0))) == {"worker:0"}


def test_two_slow_workers_have_each_their_own_phase(watch: Watch) -> None:
    found = stragglers(watch(6, {1: {"input": 0.02}, 4: {"compute": 0.03}}))
    assert {name: each.evidence["phase"] for name, (_, each) in found.items()} == {
        "worker:1": "input",
        "worker:4": "compute",
    }


def test_its_cause_is_told_as_that_of_any_straggler(watch: Watch) -> None:
    calm = HostSample(0.4, 16, 6.0, 32 << 30, 64 << 30, 0, pressure=Pressure(0.01, 0.0, 0.0))
    pressed = replace(calm, pressure=Pressure(0.5, 0.0, 0.0))
    found = stragglers(watch(3, {2: {"compute": 0.03}}, host={0: calm, 1: calm, 2: pressed}))
    assert found["worker:2"][1].evidence["cause"] == "cpu"
    found = stragglers(watch(3, {1: {"input": 0.03}}))
    assert found["worker:1"][1].evidence["cause"] == "input"


def test_a_healthy_cluster_in_numbers(watch: Watch) -> None:
    findings = watch(4, noise=0.02)[-1]
    assert findings.diagnoses == ()
    assert findings.headline.startswith("healthy: 4 workers at work, ")
    assert findings.step_time == pytest.approx(0.021, rel=0.03)
    assert findings.steps_per_second == pytest.approx(4 / 0.021, rel=0.03)
    assert (findings.slowdown, findings.transfer) == (1.0, None)
    assert sum(findings.spent.values()) == pytest.approx(60, abs=1.0)
    assert findings.spent["productive"] > 50


def test_it_ends_when_the_worker_starts_anew(cluster: Make) -> None:
    observer = Diagnostician(cluster(2, chief=["10.0.1.1:1"]))
    for name in ("worker:0", "worker:1", "chief:0"):
        observer.note_link(name, True, 0.0)
    batches = [steps(0, 60, 0.02, {}, 0.0, 0.02), steps(1, 60, 0.02, {"compute": 0.04}, 0.0, 0.02)]
    for task, frame in frames(batches, 30):
        observer.observe(task, frame)
        findings = observer.diagnose(frame.at)
    assert [each.subject for each in findings.diagnoses] == ["worker:1"]
    observer.observe("worker:1", Frame(31, 31.0, replace(RUNNING, attempt=2)))
    assert [each.end for each in observer.diagnose(31.0).diagnoses] == [31.0]


def test_a_worker_that_leaves_takes_nothing_of_what_is_known_of_the_others_along(cluster: Make) -> None:
    observer = Diagnostician(cluster(6, chief=["10.0.1.1:1"]))
    for name in ("chief:0", *(f"worker:{index}" for index in range(6))):
        observer.note_link(name, True, 0.0)
    slow = {4: {"compute": 0.03}}
    batches = [steps(index, 60, 0.02, slow.get(index, {}), 0.0, 0.02) for index in range(6)]
    for task, frame in frames(batches, 40):
        if task == "worker:5" and frame.at > 20:
            frame = replace(frame, status=replace(RUNNING, state=TaskState.EXITED, exit=Exit(0, None, 20.0)))
        observer.observe(task, frame)
        if task == "chief:0":
            told = observer.diagnose(frame.at).diagnoses
            assert frame.at < 8 or [each.subject for each in told] == ["worker:4"], frame.at


def test_each_worker_tells_how_old_its_updates_are(watch: Watch) -> None:
    subjects = watch(2, {1: {"compute": 0.04}}, noise=0.02)[-1].subjects
    slow, quick = subjects["worker:1"].staleness, subjects["worker:0"].staleness
    assert slow is not None and quick is not None
    # Others update at 1 / 21 ms while its 40 ms more, 60 % of 20 ms for gradients and 10 % for the push go by.
    assert slow.mean == pytest.approx(0.054 / 0.021, rel=0.2) and quick.mean < 0.5
    assert sum(slow.updates.values()) > 50 and all(number > 0 for number in slow.updates.values())


def test_one_worker_alone_is_never_stale(watch: Watch) -> None:
    assert watch(1)[-1].subjects["worker:0"].staleness is None
