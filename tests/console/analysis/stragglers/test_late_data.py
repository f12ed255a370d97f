"""Workers whose data come late: one is named where it is known how fast the others' input is, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from phase_simulation import frame
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame

Make = Callable[[int], Diagnostician]
STORE = 4
"""Batches that an input makes before they are asked for: two of `prefetch(2)`, two of the iterator of a strategy."""
LEAST_CALLS = 20
"""Calls over which the probe measures, within a minute."""
WORK = 0.002
"""Seconds of a step beside its batch; the all-reduce takes half of it."""


@dataclass
class Input:
    """An input that makes one batch after the other, until its store is full."""

    seconds: float
    """Time for a batch."""
    from_then_on: float | None = None
    """Time for a batch after `since`."""
    since: float = 40.0
    ahead: float = 0.0
    """Seconds by which it begins before the others."""
    made: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    work: list[tuple[float, float]] = field(default_factory=list)
    """(begin, end) of the making of each batch."""

    def take(self, asked: float, noise: float) -> float:
        """Return when the next batch, that is asked for now, is there."""
        count = len(self.made)
        begin = max(self.made[-1] if count else -self.ahead, self.taken[count - STORE] if count >= STORE else -10.0)
        slow = self.from_then_on is not None and begin >= self.since
        self.made.append(begin + noise * (self.from_then_on if slow and self.from_then_on else self.seconds))
        self.work.append((begin, self.made[-1]))
        self.taken.append(max(asked, self.made[-1]))
        return self.taken[-1]

    def python(self, now: float) -> float:
        """Return the seconds of work for each of the newest steps, as the probe measures them."""
        begin, end = np.array(self.work).T
        steps = [taken for taken in self.taken if taken <= now]
        since = max(now - 60.0, min(now - 10.0, [0.0, *steps][-LEAST_CALLS:][0]))
        counted = [taken for taken in steps if taken >= since]
        if len(counted) < 2:
            return 0.0
        work = np.minimum(end, counted[-1]) - np.maximum(begin, counted[0])
        return float(np.clip(work, 0, None).sum()) / (len(counted) - 1)


def frames(inputs: Sequence[Input], seconds: int, work: float, measured: bool) -> Iterator[tuple[str, Frame]]:
    """Yield (task, frame), one for each second and worker, of workers that wait for each other in every step."""
    random, ends, steps, left, last = np.random.default_rng(0), [], [], 0.0, 0
    while left < seconds + 2 * STORE * max(each.seconds for each in inputs):
        waits = np.array(
            [each.take(left, noise) - left for each, noise in zip(inputs, _noise(random, len(inputs)), strict=True)]
        )
        own = work * _noise(random, len(inputs))
        reduce = (waits + own).max() - waits - own + work / 2
        left += float((waits + own).max()) + work / 2
        ends.append(left)
        steps.append(np.stack([0 * own, 0 * own, waits, own, reduce]))
    end, phases = np.array(ends), np.stack(steps, axis=1)
    for second in range(1, seconds + 1):
        last, before = int(np.searchsorted(end, second)), last
        for worker, each in enumerate(inputs):
            made = frame(worker, float(second), end, phases, before, last)
            assert made.probe is not None
            python = each.python(second) if measured else None
            yield f"worker:{worker}", replace(made, probe=replace(made.probe, input_python=python))


def _noise(random: np.random.Generator, count: int) -> np.ndarray:
    return np.exp(0.02 * random.normal(size=count))


def watched(make: Make, *inputs: Input, seconds: int = 60, work: float = WORK, measured: bool = True) -> list[Findings]:
    """Return what is found in each second."""
    observer, found = make(len(inputs)), []
    for task, each in frames(inputs, seconds, work, measured):
        observer.observe(task, each)
        if task == f"worker:{len(inputs) - 1}":
            found.append(observer.diagnose(each.at))
    return found


def stragglers(found: Findings) -> dict[str, Diagnosis]:
    return {each.subject: each for each in found.diagnoses if each.kind == "straggler" and each.end is None}


def first_named(found: Sequence[Findings], name: str) -> int:
    return next(second for second, each in enumerate(found, 1) if set(stragglers(each)) == {name})


def bound_by_input(found: Findings) -> list[str]:
    return [
        each.sentence
        for each in found.diagnoses
        if each.kind == "saturation" and each.evidence["resource"] == "input" and each.end is None
    ]


@pytest.mark.parametrize("measured", [True, False], ids=["Python known", "unknown"])
@pytest.mark.parametrize(
    ("seconds", "ahead", "work"),
    [
        ((0.03, 0.03), 0.0, WORK),
        ((0.03, 0.0303), 0.0, WORK),
        ((0.03, 0.03), 1.0, WORK),
        ((*[0.03] * 7, 0.0303), 0.0, WORK),
        ((0.002, 0.00202), 0.0, 0.0002),
    ],
    ids=["equal", "later by a hair", "full store of one", "eight workers", "steps of 3 ms"],
)
def test_of_equal_inputs_nobody_is_named_and_the_cluster_is_bound_by_them(
    diagnostician: Make, seconds: Sequence[float], ahead: float, work: float, measured: bool
) -> None:
    first, *others = (Input(each) for each in seconds)
    found = watched(diagnostician, replace(first, ahead=ahead), *others, work=work, measured=measured)
    assert [stragglers(each) for each in found] == [{}] * 60
    assert [each.suspect for each in found] == [None] * 60
    assert not any("slower" in each.headline for each in found)
    assert all(bound_by_input(each) for each in found[14:])


@pytest.mark.parametrize("work", [WORK, 0.0002, 0.02])
@pytest.mark.parametrize("workers", [2, 8])
def test_one_whose_input_is_slow_from_the_start_is_named_with_what_it_costs(
    diagnostician: Make, work: float, workers: int
) -> None:
    found = watched(diagnostician, Input(0.06), *(Input(0.001) for _ in range(workers - 1)), work=work)
    assert first_named(found, "worker:0") <= 12
    assert stragglers(found[-1])["worker:0"].evidence["slowdown"] >= 0.8 * 0.06 / (1.5 * work + 0.001)


def test_of_two_slow_inputs_the_slower_one_is_named_with_what_the_other_one_leaves(diagnostician: Make) -> None:
    found = watched(diagnostician, Input(0.02), Input(0.08))
    assert first_named(found, "worker:1") <= 12
    assert stragglers(found[-1])["worker:1"].evidence["slowdown"] == pytest.approx(0.08 / 0.02, rel=0.1)


def test_a_slow_input_of_which_nothing_else_is_known_is_told_as_the_one_that_comes_last(diagnostician: Make) -> None:
    found = watched(diagnostician, Input(0.06), Input(0.001), measured=False)
    assert not any(stragglers(each) for each in found)
    (sentence,) = bound_by_input(found[14])
    assert sentence.startswith("input-bound: worker:0 waits ")
    assert "of each step for data, which come last (how fast the others' would come is not known)" in sentence


def test_of_two_slow_inputs_and_a_quick_one_the_two_are_said_to_wait(diagnostician: Make) -> None:
    for measured in (True, False):
        found = watched(diagnostician, Input(0.06), Input(0.06), Input(0.001), measured=measured)
        sentences = {sentence for each in found for sentence in bound_by_input(each)}
        assert sentences and not [sentence for sentence in sentences if "every worker" in sentence]


def test_an_input_that_takes_seconds_is_named_with_what_it_costs(diagnostician: Make) -> None:
    found = watched(diagnostician, Input(5.0), Input(1.0), seconds=300, work=0.5)
    assert stragglers(found[-1])["worker:0"].evidence["slowdown"] == pytest.approx(5.0 / 1.0, rel=0.2)
    assert not any(stragglers(each) for each in watched(diagnostician, Input(5.0), Input(5.0), seconds=300, work=0.5))


@pytest.mark.parametrize("measured", [True, False])
def test_an_input_that_becomes_slow_costs_what_the_steps_grew_by(diagnostician: Make, measured: bool) -> None:
    late = Input(0.02, from_then_on=0.05)
    found = watched(diagnostician, late, Input(0.02), seconds=90, measured=measured)
    assert not any(stragglers(each) for each in found[:40])
    assert stragglers(found[-1])["worker:0"].evidence["slowdown"] == pytest.approx(0.05 / 0.02, rel=0.1)


def test_two_whose_inputs_become_slow_one_after_the_other_are_both_named_while_both_are(diagnostician: Make) -> None:
    """While the second one is the later one, the first has batches in store, and its Python shows that it is slow."""
    slow = Input(0.02, from_then_on=0.05), Input(0.02, from_then_on=0.1, since=80.0)
    found = watched(diagnostician, *slow, Input(0.02), seconds=140)
    assert set(stragglers(found[75])) == {"worker:0"}
    assert "worker:1" in stragglers(found[-1])
    assert stragglers(found[-1])["worker:1"].evidence["slowdown"] == pytest.approx(0.1 / 0.05, rel=0.15)


def test_of_inputs_without_python_nobody_is_named(diagnostician: Make) -> None:
    class Native(Input):
        def python(self, _now: float) -> float:
            return 0.0

    found = watched(diagnostician, Native(0.06), Native(0.001))
    assert not any(stragglers(each) for each in found)
    found = watched(diagnostician, Input(0.06), Native(0.001))
    assert first_named(found, "worker:0") <= 12


def test_calls_beside_each_other_count_as_often_as_they_make_a_batch(diagnostician: Make) -> None:
    """Four calls of 0.24 s beside each other make a batch each 60 ms, four of 0.12 s one each 30 ms."""

    class Parallel(Input):
        def python(self, now: float) -> float:
            return 4 * super().python(now)

    found = watched(diagnostician, Parallel(0.06), Parallel(0.03))
    assert stragglers(found[-1])["worker:0"].evidence["slowdown"] == pytest.approx(0.06 / 0.03, rel=0.1)
