"""Properties of the diagnosis that hold for every cluster, whatever its numbers."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phase_simulation import Noise, Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus


def spec_of(workers: int) -> ClusterSpec:
    addresses = [f"10.0.{index // 250}.{index % 250 + 1}:2222" for index in range(workers)]
    return parse_cluster({"cluster": {"worker": addresses}}, name="test", where="test", base=Path())


WORKERS, CULPRIT = 5, 3
SPEC = spec_of(WORKERS)
RUNNING = TaskStatus(TaskState.RUNNING, 1, 1, started=0.0)
SLOW = Simulation(WORKERS, 8.0, 40.0, Noise(0.05, 0.3), (Slow(CULPRIT, 1.5, begin=10.0),), seed=11)
EQUAL = Simulation(WORKERS, 8.0, 40.0, Noise(0.08, 0.5), seed=12)
slow_frames, equal_frames = list(SLOW.frames()), list(EQUAL.frames())
quick = settings(max_examples=12, deadline=None, derandomize=True)


def watch(spec: ClusterSpec, frames: Iterable[tuple[str, Frame]]) -> list[Findings]:
    """Return the findings after each second of frames, in order of arrival."""
    observer = Diagnostician(spec)
    for task in spec.tasks:
        observer.note_link(str(task), True, 0.0)
    said, now = [], 0
    for task, frame in frames:
        if frame.sequence > now:
            now = frame.sequence
            said.append(observer.diagnose(float(now)))
        observer.observe(task, frame)
    return [*said, observer.diagnose(now + 1.0)]


def stragglers(said: Iterable[Findings]) -> dict[str, Diagnosis]:
    """Return the first diagnosis of each straggler that was ever named."""
    named: dict[str, Diagnosis] = {}
    for findings in said:
        for each in findings.diagnoses:
            if each.kind == "straggler":
                named.setdefault(each.subject, each)
    return named


def renamed(frame: Frame, name: str) -> Frame:
    return replace(frame, steps=tuple(replace(batch, subject=name, reporter=name) for batch in frame.steps))


def shifted(frame: Frame, offset: float) -> Frame:
    steps = tuple(replace(batch, end=array("d", [end + offset for end in batch.end])) for batch in frame.steps)
    return replace(frame, at=frame.at + offset, steps=steps)


@quick
@given(st.permutations(range(WORKERS)))
def test_permuting_the_workers_permutes_the_answer(order: list[int]) -> None:
    names = {f"worker:{index}": f"worker:{order[index]}" for index in range(WORKERS)}
    permuted = [(names[task], renamed(frame, names[task])) for task, frame in slow_frames]
    (before,), (after,) = (stragglers(watch(SPEC, frames)).values() for frames in (slow_frames, permuted))
    assert after.subject == names[before.subject] == names[f"worker:{CULPRIT}"]
    assert after.evidence["ratio"] == pytest.approx(before.evidence["ratio"])
    assert (after.begin, after.evidence["phase"]) == (pytest.approx(before.begin), before.evidence["phase"])


@quick
@given(st.integers(0, WORKERS - 1), st.floats(-1e5, 1e5))
def test_a_constant_offset_of_one_workers_stamps_changes_nothing(worker: int, offset: float) -> None:
    moved = [(task, shifted(frame, offset) if task == f"worker:{worker}" else frame) for task, frame in slow_frames]
    (before,), (after,) = (stragglers(watch(SPEC, frames)).values() for frames in (slow_frames, moved))
    assert after.subject == before.subject
    assert after.evidence["ratio"] == pytest.approx(before.evidence["ratio"], rel=1e-3)
    assert after.evidence["phase"] == before.evidence["phase"]


@quick
@given(st.randoms(use_true_random=False))
def test_whatever_tenth_of_the_frames_is_lost_nobody_is_named_wrongly(random: Random) -> None:
    for frames, right in ((slow_frames, {f"worker:{CULPRIT}"}), (equal_frames, set())):
        lost = set(random.sample(range(len(frames)), len(frames) // 10))
        assert set(stragglers(watch(SPEC, [each for i, each in enumerate(frames) if i not in lost]))) == right


@quick
@given(st.randoms(use_true_random=False))
def test_late_frames_are_as_good_as_those_in_time(random: Random) -> None:
    late = sorted(slow_frames, key=lambda each: each[1].at + (2.0 if random.random() < 0.1 else 0.0))
    assert set(stragglers(watch(SPEC, late))) == {f"worker:{CULPRIT}"}


VALUES = (0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 3e38, 1e-40, 0.01, 0.01, 0.02)


def wild(random: Random, name: str, first: int) -> StepBatch:
    """Return a batch as no probe should send it: any numbers, missing columns, steps twice and out of order."""
    count = random.randrange(7)
    sequence = [first + random.randrange(12) for _ in range(count)]
    columns = {phase: array("f", random.choices(VALUES, k=count * random.randrange(2))) for phase in PHASES}
    end = array("d", [random.choice([0.1 * each, 0.1 * each, math.nan]) for each in sequence])
    return StepBatch(1, random.randrange(3), name, name, sequence, end, **columns)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_no_numbers_break_it(random: Random) -> None:
    frames = [
        (str(task), Frame(second, float(second), RUNNING, steps=(wild(random, str(task), 5 * second),)))
        for second in range(5)
        for task in SPEC.tasks
    ]
    for findings in watch(SPEC, frames):
        assert not any(each.kind == "straggler" for each in findings.diagnoses)
        for summary in findings.subjects.values():
            values = [getattr(summary, name) for name in (*PHASES, "lag", "wait", "ratio", "step_time")]
            assert not any(value is not None and math.isnan(value) for value in values)


@pytest.mark.parametrize(("workers", "rate", "seconds"), [(1, 20.0, 20.0), (2, 1.0, 2.0), (2_000, 2.0, 15.0)])
def test_one_worker_one_step_and_two_thousand_workers(workers: int, rate: float, seconds: float) -> None:
    said = watch(spec_of(workers), Simulation(workers, rate, seconds).frames())
    assert stragglers(said) == {}
    assert len(said[-1].subjects) == workers


def test_one_of_two_thousand_is_named() -> None:
    slow = (Slow(1_234, 1.5, begin=0.0),)
    said = watch(spec_of(2_000), Simulation(2_000, 4.0, 14.0, slow=slow).frames())
    assert set(stragglers(said)) == {"worker:1234"}
