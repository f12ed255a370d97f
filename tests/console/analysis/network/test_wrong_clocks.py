"""Clocks that run wrong, found by when workers leave the same all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame

Make = Callable[[int], Diagnostician]


def frames(workers: int, ahead: Mapping[str, float], inside: float = 0.0) -> Iterator[tuple[str, Frame]]:
    """Yield frames of a minute; hosts' clocks are `ahead`, and each all-reduce takes `inside` seconds more."""
    for task, made in Simulation(workers, 5.0, 60.0).frames():
        by = ahead.get(task, 0.0)
        steps = tuple(
            replace(batch, end=[end + by for end in batch.end], reduce=[each + inside for each in batch.reduce])
            for batch in made.steps
        )
        yield task, replace(made, at=made.at + by, steps=steps)


def found(observer: Diagnostician, arrivals: Iterator[tuple[str, Frame]], each_second: bool = True) -> list[Diagnosis]:
    last = f"worker:{len(observer._tasks) - 1}"
    findings = None
    for task, frame in arrivals:
        observer.observe(task, frame)
        if each_second and task == last:
            findings = observer.diagnose(frame.at)
    findings = findings or observer.diagnose(900.0)
    return [each for each in findings.diagnoses if each.kind == "wrong_clock"]


@pytest.mark.parametrize(("apart", "words"), [(3.0, "3.0 s ahead of"), (-90.0, "90 s behind")])
def test_the_one_whose_clock_differs_from_the_others_is_named(diagnostician: Make, apart: float, words: str) -> None:
    (wrong,) = found(diagnostician(4), frames(4, {"worker:2": apart}))
    assert wrong.sentence == f"worker:2's clock is {words} the others'"
    assert (wrong.subject, wrong.severity, wrong.end) == ("worker:2", "warning", None)
    assert wrong.number("clock_apart") == pytest.approx(apart, abs=0.01)
    assert "chronyc" in str(first_step(wrong))


def test_of_two_nobody_knows_whose_clock_is_wrong(diagnostician: Make) -> None:
    (wrong,) = found(diagnostician(2), frames(2, {"worker:1": -4.0}))
    assert wrong.subject == "cluster"
    assert wrong.sentence.startswith("the clocks of worker:0 and worker:1 are 4.0 s apart")


def test_less_than_a_second_is_not_told(diagnostician: Make) -> None:
    assert found(diagnostician(3), frames(3, {"worker:1": 0.7})) == []


def test_a_worker_that_leaves_a_long_all_reduce_late_has_no_wrong_clock(diagnostician: Make) -> None:
    assert found(diagnostician(3), frames(3, {"worker:1": 2.5}, inside=2.6)) == []
    assert len(found(diagnostician(3), frames(3, {"worker:1": 4.5}, inside=2.6))) == 1


def test_a_console_that_comes_minutes_later_and_gets_all_frames_at_once_finds_the_same(diagnostician: Make) -> None:
    live = found(diagnostician(3), frames(3, {"worker:1": 3.0}))
    (late,) = found(diagnostician(3), frames(3, {"worker:1": 3.0}), each_second=False)
    assert [each.sentence for each in live] == [late.sentence]


def test_frames_that_a_slow_network_or_a_busy_console_delays_make_no_clock_wrong(diagnostician: Make) -> None:
    observer, held = diagnostician(3), []
    for task, frame in frames(3, {}):
        if task == "worker:1":
            held.append(frame)
        else:
            observer.observe(task, frame)
        if len(held) == 4:
            for each in held:
                observer.observe("worker:1", each)
            held = []
            findings = observer.diagnose(frame.at + 30)
            assert not [each for each in findings.diagnoses if each.kind == "wrong_clock"]


@pytest.mark.parametrize("wrong", ["worker:0", "worker:2"])
def test_a_clock_is_wrong_from_the_first_step_after_it_was_set_on(diagnostician: Make, wrong: str) -> None:
    both = zip(frames(3, {}), frames(3, {wrong: 3.0}), strict=True)
    ((clock, *_),) = [found(diagnostician(3), (after if before[1].at > 40 else before for before, after in both))]
    assert clock.begin == pytest.approx(40, abs=1.0)


def test_a_clock_that_is_set_right_ends_it(diagnostician: Make) -> None:
    observer = diagnostician(3)
    both = zip(frames(3, {"worker:1": 3.0}), frames(3, {}), strict=True)
    mended = (after if after[1].at > 40 else before for before, after in both)
    ends = []
    for task, frame in mended:
        observer.observe(task, frame)
        if task == "worker:2":
            told = observer.diagnose(frame.at).diagnoses
            ends += [each.end for each in told if each.kind == "wrong_clock" and each.end is not None]
    assert len(ends) == 1 and 40 < ends[0] < 52
