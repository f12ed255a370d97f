"""The fast path assembles the same steps as the assembler, whatever a program does and whenever it is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_rows import MS, Loop, loops, usual
from tfscale.core.records.probe_status import Activity, Collective
from tfscale.trainer.probe.report.encoding import encoded
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.status import Status
from tfscale.trainer.probe.report.step_columns import step_batches, without_phases
from tfscale.trainer.probe.rows.native import library
from tfscale.trainer.probe.rows.row_kinds import Member, RowKinds
from tfscale.trainer.probe.rows.spans import Kind, Sites
from tfscale.trainer.probe.steps import usual_steps
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.step import Step, Tail
from tfscale.trainer.probe.steps.step_reader import StepReader
from tfscale.trainer.probe.steps.timeline import Interval
from tfscale.trainer.probe.steps.usual_steps import FastPath, TakenSteps, UsualSteps

if library() is None and shutil.which(os.environ.get("CC", "cc").split()[0]) is None:
    pytest.skip("no C compiler here: there is no fast path", allow_module_level=True)


class Read(NamedTuple):
    """All steps of a loop, and the state after them."""

    steps: list[Step]
    tail: Tail | None
    counted: int
    activities: list[Activity]
    usual: int
    """Steps of the reads in which nothing but usual steps came."""


def read(
    loop: Loop, ends: Sequence[float], delay: float = 0.0, pauses: Sequence[tuple[int, Interval]] = ()
) -> tuple[Read, list[Sequence[Step]]]:
    """Read the rows at these times, the newest `delay` seconds unsettled.

    Args:
        pauses: number of the read at which each becomes known, and its interval.
    """
    assembler = StepAssembler()
    reader = StepReader(loop.sites.all, loop.kinds, assembler)
    assert loop.run.counter is not None
    loop.run.counter.count = 0
    reads: list[Sequence[Step]] = []
    activities = []
    before = 0.0
    for number, end in enumerate([*ends, np.inf]):
        known = [pause for at, pause in pauses if at == number]
        reads.append(reader.read(loop.read(before, end), [], known, end - delay))
        activities += assembler.drain_activities(end if end < np.inf else loop.at)
        before = end
    steps = [step for each in reads for step in each]
    fast = sum(len(each) for each in reads if isinstance(each, UsualSteps))
    return Read(steps, assembler.tail, loop.run.counter.count, activities, fast), reads


def both_ways(loop: Loop, *arguments: Any) -> tuple[Read, Read]:
    """Return what is read with the fast path, and what the assembler reads alone."""
    fast, _ = read(loop, *arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastPath, "cut_usual", lambda _, rows, *__: TakenSteps(None, rows, False))
        alone, _ = read(loop, *arguments)
    return fast, alone


def assert_same(fast: Read, alone: Read) -> None:
    assert alone.usual == 0
    assert len(fast.steps) == len(alone.steps)
    for mine, theirs in zip(fast.steps, alone.steps, strict=True):
        np.testing.assert_allclose(mine[1:7], theirs[1:7], rtol=0, atol=1e-6)
        assert mine[0] == theirs[0] and mine[7:] == theirs[7:]
    assert fast[1:4] == alone[1:4]


@settings(max_examples=200, deadline=None)
@given(loops(), st.lists(st.floats(0, 1), max_size=8), st.sampled_from([0.0, 0.003, 0.02]), st.data())
def test_the_fast_path_assembles_the_steps_of_the_assembler(
    loop: Loop, cuts: list[float], delay: float, data: st.DataObject
) -> None:
    ends = sorted(1000 + cut * (loop.at - 1000) for cut in cuts)
    # Also of long before, or of what is still to come.
    parts = st.tuples(st.integers(0, len(ends)), st.floats(-0.1, 1.1), st.floats(0, 0.2))
    lasted = loop.at - 1000
    pauses = [
        (number, (1000 + begin * lasted, 1000 + (begin + length) * lasted))
        for number, begin, length in data.draw(st.lists(parts, max_size=2))
    ]
    fast, alone = both_ways(loop, ends, delay, pauses)
    assert_same(fast, alone)
    assert loop.run.counter is not None
    assert fast.counted == loop.steps
    # Where iterations overlap by more than a step takes, a reduction may end before the run that it is not of.
    assert len(fast.steps) == loop.steps or (loop.overlaps and len(fast.steps) < loop.steps)


def test_every_update_is_counted_also_where_iterations_overlap_by_more_than_a_step() -> None:
    loop = Loop(collective=False)
    for overlap in (0, 0, 2):
        loop.at -= overlap * MS
        loop.step((0, 0, 0, 0, 0))
    loop.rows[-1] = 1000.0, [*loop.rows[-1][1][:-1], 1000.0]
    found, _ = read(loop, [])
    assert [step.global_step for step in found.steps] == [8, 9]
    assert found.counted == 3


@pytest.mark.parametrize("collective", [True, False])
def test_after_the_first_read_usual_steps_are_assembled_fast(collective: bool) -> None:
    loop = Loop(collective)
    for each in range(100):
        loop.step((2, 3, 5, 20 + each % 3, 10), amount=float(each % 2))
    found, (first, *others) = read(loop, [1000.5, 1001.5, 1002.5, 1003.5], 0.02)
    assert [type(steps) for steps in (first, *others)] == [list, *[UsualSteps] * 4]
    assert [step.sequence for step in found.steps] == list(range(100))
    assert [step.global_step for step in found.steps] == list(range(8, 108))
    assert np.isnan([step.reduce for step in found.steps]).all() is not np.bool_(collective)


def test_reductions_of_metrics_beside_the_steps_are_assembled_fast() -> None:
    loop = usual(100)
    fast, alone = both_ways(loop, [1000.5, 1002.5, 1003.0], 0.02)
    assert_same(fast, alone)
    assert fast.usual > 80
    waited = [step.reduce for step in fast.steps[1:]]
    # A tenth of the step, ready at three tenths of it.
    assert max(waited) > min(waited) + 0.003


@pytest.mark.parametrize(
    ("begin", "length", "phases"),
    [
        # Over before the gradients are ready: the compute around it is so much shorter.
        (6, 2, (10, 2, 3, 3, 22)),
        # Ready before the updates, over after the next batch was asked for: what lies after the updates is waiting.
        (36, 8, (10, 0, 1, 5, 24)),
        # The gradients, which are ready meanwhile, are reduced after it.
        (8, 12, (10, 2, 3, 3, 22)),
    ],
)
def test_a_reduction_of_metrics_is_waiting_wherever_it_falls(
    begin: float, length: float, phases: tuple[float, ...]
) -> None:
    loop = Loop()
    for _ in range(50):
        loop.step((2, 3, 5, 20, 10), waits=[(begin / 40, length / 40)])
    fast, alone = both_ways(loop, [1000.5, 1001.0, 1001.5], 0.02)
    assert_same(fast, alone)
    assert fast.usual > 20
    np.testing.assert_allclose(fast.steps[30][2:7], MS * np.array(phases), atol=1e-6)


def test_what_is_unusual_goes_to_the_assembler_and_only_that() -> None:
    loop = usual(60)
    loop.evaluation()
    for _ in range(60):
        loop.step((2, 3, 5, 20, 10))
    _, reads = read(loop, [1000.5, 1002.3, 1003, 1003.2, 1010], 0.02)
    # One more than the read with the evaluation in it, which leaves a step half read.
    assert [type(steps) for steps in reads] == [list, UsualSteps, list, list, UsualSteps, list]


def test_the_steps_before_what_is_unusual_are_assembled_fast_in_the_same_read(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def noted(*arguments: Any) -> TakenSteps:
        result = take(*arguments)
        taken.append(len(result.steps or ()))
        return result

    take = FastPath.cut_usual
    monkeypatch.setattr(FastPath, "cut_usual", noted)
    loop = usual(30)
    loop.at += 1.5
    for _ in range(30):
        loop.step((2, 3, 5, 20, 10))
    found, reads = read(loop, [1000.5, 1003.6], 0.02)
    # A step's host of more than a second may be a pause.
    assert (type(reads[1]), taken[1]) == (list, 30 - len(reads[0]))
    assert [step.sequence for step in found.steps] == list(range(60))


def test_a_function_that_is_traced_again_is_assembled_fast_too() -> None:
    loop = usual(40)
    loop.trace_again()
    for _ in range(40):
        loop.step((2, 3, 5, 20, 10))
    _, (_, steps, _) = read(loop, [1000.5, 1010], 0.02)
    assert isinstance(steps, UsualSteps)
    assert [step.examples for step in steps[-41:]] == [32.0, *[16.0] * 40]
    assert [step.global_step for step in steps] == list(range(88 - len(steps), 88))


def test_steps_of_an_unrolled_loop_may_be_more_than_their_rows() -> None:
    sites, kinds, numbers = Sites(), RowKinds(), iter(1000 + MS * np.arange(1, 5000))
    traits: dict[Kind, dict[str, Any]] = {Kind.INPUT: {}, Kind.REDUCE: {"in_run": True}, Kind.RUN: {"trains": True}}
    members = [Member(sites.traced(kind, **traits[kind]), 1 + (kind is Kind.INPUT)) for kind in [*traits] * 5]
    rows_of_five_steps = [members[first : first + 5] for first in (0, 5, 10)]
    kinds_of_rows = [(kinds.new_kind(row), sum(member.width for member in row)) for row in rows_of_five_steps]
    reader = StepReader(sites.all, kinds, StepAssembler())
    steps: list[Step] = []
    for _ in range(3):
        rows = [
            [kind, *(next(numbers) for _ in range(width)), *[0] * (7 - width)] for kind, width in kinds_of_rows * 50
        ]
        newest = reader.read(np.array(rows), [], [], np.inf)
        steps += newest
        assert len(newest) == 250 > len(rows)
    assert isinstance(newest, UsualSteps)
    assert [step.sequence for step in steps] == list(range(750))
    np.testing.assert_allclose(np.diff([step.end for step in steps]), 4 * MS)


def test_a_batch_that_is_there_before_the_stamp_that_asks_for_it_took_no_time() -> None:
    loop = usual(60)
    for _ in range(20):
        loop.step((2, 3, 5, 20, 10), late=6)
    _, (_, steps, _) = read(loop, [1000.5, 1010], 0.02)
    assert isinstance(steps, UsualSteps)
    np.testing.assert_allclose([step[2:7] for step in steps[-19:]], 19 * [[0.01, 0.005, 0.0, 0.005, 0.02]])


@pytest.mark.parametrize("first", [1001.5, 1002])
def test_a_pause_between_steps_is_idle_time(first: float) -> None:
    loop = usual(60)
    loop.at += 30
    for _ in range(60):
        loop.step((2, 3, 5, 20, 10))
    found, _ = read(loop, [1000.5, first, 1040], 0.02)
    (idle,) = found.activities
    assert idle.kind == "idle" and idle.end is not None and 30 < idle.end - idle.begin < 30.1
    after = found.steps[-60]
    assert after.host == 0.0 and after.reduce == pytest.approx(found.steps[-59].reduce)


def test_an_activity_keeps_no_step_before_it_from_the_fast_path() -> None:
    loop = usual(100)
    pause = 1001.9, 1001.95
    fast, alone = both_ways(loop, [1000.5, 1002.5, 1003.5], 0.02, [(1, pause)])
    assert_same(fast, alone)
    assert fast.usual > 20


def sent(steps: Sequence[Step]) -> list[bytes]:
    """Return the batches of these steps as they are on the wire."""
    report = ProbeReport(Collective(0, 0), steps=steps, lost=3)
    return [encoded("StepBatch", batch) for batch in step_batches("worker:1", 1, 1, report)]


@pytest.mark.parametrize("seen", [lambda steps: steps, without_phases])
@pytest.mark.parametrize("collective", [True, False])
def test_usual_steps_are_reported_as_their_steps_would_be(
    seen: Callable[[Sequence[Step]], Sequence[Step]], collective: bool
) -> None:
    _, (_, steps, _) = read(usual(100, collective), [1000.5, 1010], 0.02)
    assert isinstance(steps, UsualSteps)
    assert len(steps) > 20
    assert sent(seen(steps)) == sent(seen(list(steps)))
    assert Status().after(steps) == Status().after(list(steps))


def test_without_a_library_or_with_another_one_there_is_no_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    class Another:
        def tfscale_usual_steps_layout(self) -> bytes:
            return b"RUN INPUT REDUCE OVERLAPPING "

    for native in (None, Another()):
        monkeypatch.setattr(usual_steps, "library", lambda native=native: native)
        assert usual_steps._library() is None


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        (["input", "gradients", "run", "metric"], True),
        (["input", "test"], False),
        (["input", "gradients", "run", "ready"], False),
        (["run", "another"], False),
    ],
)
def test_the_sites_of_one_programs_steps_are_usual(sites: list[str], expected: bool) -> None:
    loop, more = Loop(), Sites()
    known = {
        "ready": more.traced(Kind.READY),
        "another": more.traced(Kind.RUN, trains=True),
        **{name: getattr(loop, name) for name in ("input", "gradients", "run", "metric", "test")},
    }
    assert usual_steps.are_usual([known[name] for name in sites]) is expected
