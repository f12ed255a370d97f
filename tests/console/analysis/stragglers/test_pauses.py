"""Pauses of one subject that come again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.pauses import PauseWatch
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import Activity, ActivityKind
from tfscale.core.records.step_batch import PHASES
from tfscale.core.text import clock

BEGIN = 1_800_000_000.0


def watched(
    seconds: float,
    step: float,
    pauses: Mapping[str, tuple[float, float]],
    until: float = 1e9,
    workers: int = 3,
    sequence: int = 0,
) -> list[list[Diagnosis]]:
    """Return what is told each second of workers whose `pauses` are (seconds, seconds from one to the next)."""
    names = tuple(f"worker:{index}" for index in range(workers))
    watch, told, at = PauseWatch(), [], 0.0
    due = {name: every for name, (_, every) in pauses.items()}
    while at < seconds:
        second, rows, ends = at + max(1.0, step), [], []
        while at < second:
            host = np.full(workers, 0.05 * step)
            for name, (length, every) in pauses.items():
                if due[name] <= at < until:
                    host[names.index(name)] += length
                    due[name] = at + length + every
            at += step + host.max()
            rows.append(host)
            ends.append(BEGIN + at)
        planes = np.zeros((len(PHASES), len(rows), workers), np.float32)
        planes[PHASES.index("host")], planes[PHASES.index("compute")] = np.array(rows), 0.9 * step
        fresh = AlignedSteps(names, np.arange(sequence, sequence + len(rows)), np.array(ends), planes)
        sequence += len(rows)
        watch.count(fresh)
        watch.count(fresh)
        told.append(watch.diagnose(()))
    return told


@pytest.mark.parametrize("step", [0.002, 0.1, 1.0])
def test_a_worker_that_pauses_again_and_again_is_named_with_what_it_costs(step: float) -> None:
    told = watched(100, step, {"worker:2": (3.2, 10.0)})
    (found,) = told[-1]
    assert (found.kind, found.subject, found.severity) == ("pauses", "worker:2", "serious")
    assert found.evidence["cost"] == pytest.approx(3.2 / 13.2, rel=0.2)
    assert found.evidence["phase"] == "host"
    assert found.sentence.startswith(
        f"worker:2 pauses again and again (since {clock(found.begin)}): for 3.2 s about every"
    )
    assert found.begin == pytest.approx(BEGIN + 10, abs=2)


def test_of_steps_that_were_not_seen_from_the_first_on_pauses_may_be_older() -> None:
    (found,) = watched(100, 0.1, {"worker:2": (3.2, 10.0)}, sequence=500)[-1]
    assert f" again and again (since before {clock(found.begin)}): " in found.sentence and found.began_earlier


def test_they_are_told_from_the_third_one_on_and_are_over_once_they_stay_away() -> None:
    told = [bool(each) for each in watched(100, 0.1, {"worker:0": (1.0, 8.0)}, until=50)]
    first = told.index(True)
    assert first == pytest.approx(27, abs=4)
    assert all(told[first : first + 25])
    assert not any(told[-15:])


def test_two_that_pause_are_two_findings() -> None:
    told = watched(100, 0.1, {"worker:0": (1.0, 8.0), "worker:2": (2.0, 11.0)})
    assert {each.subject for each in told[-1]} == {"worker:0", "worker:2"}


@pytest.mark.parametrize(
    "pauses",
    [{}, {"worker:1": (0.3, 5.0)}, {"worker:1": (1.0, 60.0)}, {f"worker:{index}": (3.0, 10.0) for index in range(3)}],
    ids=["none", "short", "rare", "all-together"],
)
def test_what_is_short_or_rare_or_alike_on_all_is_none(pauses: Mapping[str, tuple[float, float]]) -> None:
    assert not any(watched(150, 0.1, pauses))


def test_a_straggler_is_told_once() -> None:
    watch = PauseWatch()
    assert watch.diagnose({"worker:0"}) == []


@pytest.mark.parametrize(
    ("kind", "phase"),
    [(ActivityKind.IDLE, "host"), (ActivityKind.CHECKPOINT, "checkpoint"), (ActivityKind.COMPILE, "compute")],
)
def test_what_one_does_alone_between_its_steps_is_a_pause(kind: ActivityKind, phase: str) -> None:
    """The probe leaves such a time out of the steps."""
    told = [list(each) for each in between_steps(kind, together=False)]
    (found,) = told[-1]
    assert (found.subject, found.evidence["phase"]) == ("worker:1", phase)
    assert found.evidence["cost"] == pytest.approx(0.3, rel=0.2)


def test_what_all_do_together_is_no_pause_of_one() -> None:
    assert not any(between_steps(ActivityKind.CHECKPOINT, together=True))


def test_what_was_brief_and_reported_as_it_began_lasts_no_longer() -> None:
    """A checkpoint of 20 ms that lasted while its worker reported is reported again once it has ended."""
    ended = [Activity(ActivityKind.CHECKPOINT, BEGIN, each) for each in (None, BEGIN + 0.02)]
    told = list(between_steps(ActivityKind.IDLE, together=False, others=ended))
    assert told[-1][0].subject == "worker:1"


def between_steps(kind: ActivityKind, together: bool, others: Sequence[Activity] = ()) -> Iterator[list[Diagnosis]]:
    """Yield what is told each second where worker:1 (or both) does something else for 3 s of each 10."""
    watch = PauseWatch()
    for activity in others:
        watch.note_activities("worker:0", [activity])
    for second in range(60):
        at = BEGIN + second
        for task in ("worker:0", "worker:1") if together else ("worker:1",):
            begin = BEGIN + second // 10 * 10
            watch.note_activities(task, [Activity(kind, begin, begin + 3 if second % 10 >= 3 else None)])
        if second % 10 >= 3:
            planes = np.full((len(PHASES), 10, 2), 0.02, np.float32)
            ends = np.linspace(at, at + 0.9, 10)
            watch.count(AlignedSteps(("worker:0", "worker:1"), np.arange(second * 10, second * 10 + 10), ends, planes))
        yield watch.diagnose(())
