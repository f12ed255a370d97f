"""Steps beside those of earlier attempts and runs: what is slower than before is told, with what has changed since."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from phase_simulation import Noise, Simulation
from tfscale.console.analysis.baselines.baseline import Baseline
from tfscale.console.analysis.baselines.run_facts import BaselineKey
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.findings import is_calm
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.host_sample import HostSample

Cluster = Callable[[int], ClusterSpec]
LONG, SHORT = 130.0, 75.0
"""Seconds after which a baseline is kept, and within which a slower run is told."""


@dataclass
class Memory:
    """Baselines that the console would keep in its file."""

    kept: list[Baseline] = field(default_factory=list)

    def recall(self, key: BaselineKey) -> Sequence[Baseline]:
        return [each for each in self.kept if each.key and each.key == replace(key, size=each.key.size)]

    def keep(self, baseline: Baseline) -> None:
        self.kept = [each for each in self.kept if each.attempt != baseline.attempt] + [baseline]


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, `times` as slow as usual throughout."""

    begin: float = 0.0
    seconds: float = LONG
    times: float = 1.0
    phase: str = "compute"
    workers: int = 1
    number: int = 1
    batch: int = 64
    tensorflow: str = "2.17.0"
    command: tuple[str, ...] = ("python", "-u", "train.py", "--data", "/fast")
    hosts: str = "node"
    cores: int = 8
    model: int | None = 400
    noise: Noise = field(default_factory=lambda: Noise(0.03))

    def description(self, task: str) -> Description:
        host = f"{self.hosts}-{task.partition(':')[2]}"
        return Description("1", "digits", task, "worker:0", host, "{}", self.command, "", self.number, 0.0, 1, "/home")

    def frames(self) -> Iterator[tuple[str, Frame]]:
        slow = tuple(Slow(worker, self.times, phase=self.phase) for worker in range(self.workers))
        simulation = Simulation(self.workers, 10.0, self.seconds, noise=self.noise, slow=slow, seed=self.number)
        for task, frame in simulation.frames():
            assert frame.probe is not None
            probe = replace(
                frame.probe,
                examples_per_step=self.batch,
                tensorflow=self.tensorflow,
                replicas=self.workers,
                reduced_bytes_per_step=self.model,
            )
            steps = tuple(
                replace(each, attempt=self.number, end=array("d", (end + self.begin for end in each.end)))
                for each in frame.steps
            )
            yield (
                task,
                replace(
                    frame,
                    at=frame.at + self.begin,
                    status=replace(frame.status, attempt=self.number, started=self.begin),
                    probe=probe,
                    host=HostSample(0.5, self.cores, 1.0, 1, 2, 0),
                    steps=steps,
                ),
            )


def watch(spec: ClusterSpec, memory: Memory | None, *attempts: Attempt) -> list[Diagnosis]:
    """Return the slowdowns that a console tells of these attempts, each as it was told last."""
    observer = Diagnostician(spec, baselines=memory)
    found: dict[float, Diagnosis] = {}
    for attempt in attempts:
        for index in range(attempt.workers):
            observer.note_link(f"worker:{index}", True, attempt.begin)
            observer.describe(f"worker:{index}", attempt.description(f"worker:{index}"))
        for task, frame in attempt.frames():
            observer.observe(task, frame)
            if task == f"worker:{attempt.workers - 1}":
                for each in observer.diagnose(frame.at).diagnoses:
                    if each.kind == "slowdown":
                        found[each.begin] = each
    return list(found.values())


@pytest.mark.parametrize("workers", [1, 3])
def test_a_slower_run_is_told_with_the_part_and_how_much(cluster: Cluster, workers: int) -> None:
    memory = Memory()
    assert watch(cluster(workers), memory, Attempt(workers=workers)) == []
    later = Attempt(begin=90_000.0, seconds=SHORT, times=1.4, workers=workers)
    (slowdown,) = watch(cluster(workers), memory, later)
    whose = "worker:0's" if workers == 1 else "every worker's"
    assert f"{whose} compute has taken 10" in slowdown.sentence
    assert "ms in the run of 1970-01-01 00:00:00 (1.4x). Versions, command, hosts and batch are the same." in (
        slowdown.sentence
    )
    assert slowdown.evidence["ratio"] == pytest.approx(1.4, rel=0.05)
    assert slowdown.evidence["step_ratio"] == pytest.approx(1 + 0.4 * 0.85 / 1.15, rel=0.05)
    assert slowdown.evidence["cost"] == pytest.approx(1 - 1 / (1 + 0.4 * 0.85 / 1.15), abs=0.03)
    assert slowdown.severity == "warning"


@pytest.mark.parametrize("memory", [None, Memory()])
def test_a_restart_clears_nothing(cluster: Cluster, memory: Memory | None) -> None:
    attempts = Attempt(), Attempt(begin=LONG, seconds=SHORT, times=1.4, number=2)
    (slowdown,) = watch(cluster(1), memory, *attempts)
    assert "ms up to 00:0" in slowdown.sentence
    assert slowdown.begin == pytest.approx(LONG + 30, abs=3)
    assert watch(cluster(1), memory, Attempt(), Attempt(begin=LONG, seconds=SHORT, number=2)) == []


def test_what_has_changed_since_is_told(cluster: Cluster) -> None:
    memory = Memory()
    watch(cluster(1), memory, Attempt())
    later = Attempt(
        90_000.0,
        SHORT,
        2.0,
        "input",
        tensorflow="2.18.0",
        command=("python", "-u", "train.py", "--data", "/slow"),
        hosts="other",
    )
    assert watch(cluster(1), memory, later) == []
    (slowdown,) = watch(cluster(1), memory, replace(later, times=6.0))
    assert slowdown.evidence["part"] == "input"
    changed = ("TensorFlow 2.18.0, before 2.17.0", "arguments /slow, before /fast", "host other-0, before node-0")
    assert slowdown.evidence["changed"] == changed
    assert f"Changed since: {'; '.join(changed)}. worker:0 loses" in slowdown.sentence


def test_a_larger_batch_is_other_work_and_no_fault(cluster: Cluster) -> None:
    memory = Memory()
    watch(cluster(1), memory, Attempt())
    (slowdown,) = watch(cluster(1), memory, Attempt(90_000.0, SHORT, 2.0, batch=128))
    assert slowdown.severity == "info"
    assert "cost" not in slowdown.evidence
    assert first_step(slowdown) is None and is_calm(slowdown)
    assert slowdown.sentence.endswith("That is other work, and no fault: batch 128, before 64.")


def test_where_the_model_is_not_known_other_arguments_may_be_other_work(cluster: Cluster) -> None:
    memory = Memory()
    watch(cluster(1), memory, Attempt(model=None))
    (slowdown,) = watch(cluster(1), memory, Attempt(90_000.0, SHORT, 1.4, model=None))
    assert slowdown.severity == "warning"
    command = ("python", "-u", "train.py", "--data", "/slow")
    (slowdown,) = watch(cluster(1), memory, Attempt(90_000.0, SHORT, 1.4, model=None, command=command))
    assert slowdown.severity == "info"
    assert slowdown.sentence.endswith("That may be other work, and no fault: arguments /slow, before /fast.")


@pytest.mark.parametrize(
    "other",
    [
        {"cores": 16},
        {"command": ("python", "other.py")},
        {"times": 1.0, "noise": Noise(0.10, memory=0.9)},
    ],
)
def test_another_program_other_hardware_and_noise_are_not_slower(cluster: Cluster, other: dict[str, object]) -> None:
    memory = Memory()
    watch(cluster(1), memory, Attempt())
    later = replace(Attempt(90_000.0, SHORT, 1.4), **other)  # type: ignore[arg-type]
    assert watch(cluster(1), memory, later) == []


def test_of_several_runs_the_fastest_is_what_is_usual(cluster: Cluster) -> None:
    memory = Memory()
    watch(cluster(1), memory, Attempt())
    assert len(watch(cluster(1), memory, Attempt(90_000.0, times=1.5))) == 1
    assert sorted(round(each.step, 2) for each in memory.kept) == [0.1, 0.14]
    assert len(watch(cluster(1), memory, Attempt(180_000.0, SHORT, 1.5))) == 1
    assert watch(cluster(1), memory, Attempt(180_000.0, SHORT)) == []


@pytest.mark.parametrize(("phase", "is_told"), [("compute", True), ("reduce", False)])
def test_of_a_smaller_size_only_what_does_not_depend_on_it_is_compared(
    cluster: Cluster, phase: str, is_told: bool
) -> None:
    memory = Memory()
    watch(cluster(2), memory, Attempt(workers=2, batch=64))
    found = watch(cluster(4), memory, Attempt(90_000.0, SHORT, 2.0, phase, workers=4, batch=128))
    assert bool(found) is is_told
    if found:
        assert "ms with 2 replicas on 1970-01-01" in found[0].sentence
    other_batch = Attempt(90_000.0, SHORT, 2.0, phase, workers=4, batch=64)
    assert watch(cluster(4), memory, other_batch) == []


def test_the_first_half_minute_of_an_attempt_is_nobodys_baseline(cluster: Cluster) -> None:
    memory = Memory()
    slow_start = Slow(0, 3.0), Slow(0, 1 / 3, begin=25.0)
    simulation = Simulation(1, 10.0, 100.0, slow=slow_start)
    observer = Diagnostician(cluster(1), baselines=memory)
    observer.note_link("worker:0", True, 0.0)
    for task, frame in simulation.frames():
        observer.observe(task, frame)
        assert [each.kind for each in observer.diagnose(frame.at).diagnoses] == []
    assert memory.kept == []


def test_a_smaller_last_batch_does_not_make_another_spell(cluster: Cluster) -> None:
    memory = Memory()
    observer = Diagnostician(cluster(1), baselines=memory)
    observer.note_link("worker:0", True, 0.0)
    observer.describe("worker:0", Attempt().description("worker:0"))
    for task, frame in Attempt().frames():
        assert frame.probe is not None
        batch = 17 if int(frame.at) % 20 == 0 else 64
        observer.observe(task, replace(frame, probe=replace(frame.probe, examples_per_step=batch)))
        observer.diagnose(frame.at)
    assert [(each.facts.work.batch, each.blocks >= 30) for each in memory.kept] == [(64, True)]


def test_without_a_description_nothing_is_kept_and_nothing_asked(cluster: Cluster) -> None:
    class Unasked(Memory):
        def recall(self, key: BaselineKey) -> Sequence[Baseline]:
            raise AssertionError(key)

    observer = Diagnostician(cluster(1), baselines=Unasked())
    observer.note_link("worker:0", True, 0.0)
    for task, frame in Attempt().frames():
        observer.observe(task, frame)
        observer.diagnose(frame.at)


def test_a_slowdown_is_measured_on_beside_a_straggler(cluster: Cluster) -> None:
    slow = tuple(Slow(worker, 1.5, begin=80.0) for worker in range(4))
    back = tuple(Slow(worker, 1 / 1.5, begin=150.0) for worker in range(4))
    observer = Diagnostician(cluster(4))
    for index in range(4):
        observer.note_link(f"worker:{index}", True, 0.0)
    open_at: dict[str, list[float]] = {"slowdown": [], "straggler": []}
    for task, frame in Simulation(4, 10.0, 190.0, slow=(*slow, *back, Slow(2, 2.0, begin=125.0))).frames():
        observer.observe(task, frame)
        if task == "worker:3":
            for each in observer.diagnose(frame.at).diagnoses:
                if each.end is None and each.kind in open_at:
                    open_at[each.kind].append(frame.at)
    assert open_at["straggler"][-1] == 190.0
    assert 105.0 <= open_at["slowdown"][0] <= 125.0
    assert 150.0 <= open_at["slowdown"][-1] <= 165.0


def test_who_gets_the_whole_backlog_at_once_is_told_as_who_was_there(cluster: Cluster) -> None:
    memory = Memory()
    watch(cluster(1), memory, Attempt())
    later = Attempt(90_000.0, SHORT, 1.4)
    (live,) = watch(cluster(1), memory, later)
    late = Diagnostician(cluster(1), baselines=memory)
    late.note_link("worker:0", True, 90_000.0)
    late.describe("worker:0", later.description("worker:0"))
    for task, frame in later.frames():
        late.observe(task, frame)
    late.diagnose(90_000.0 + SHORT)
    (told,) = [each for each in late.diagnose(90_001.0 + SHORT).diagnoses if each.kind == "slowdown"]
    assert told.evidence["ratio"] == pytest.approx(live.evidence["ratio"], rel=0.02)
    assert told.evidence["before"] == live.evidence["before"]
