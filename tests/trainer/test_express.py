"""The short way of usual steps, in this process's ring: what it tells is what the long way would."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_rows import MS, Loop, loops, usual
from tfscale.trainer.probe.columns import PHASES, batches
from tfscale.trainer.probe.fold import Fold
from tfscale.trainer.probe.report import Collective, Messages, Report
from tfscale.trainer.probe.steps import StepAssembler
from tfscale.v1 import report_pb2, telemetry_pb2

pytestmark = pytest.mark.tensorflow

HEAD = telemetry_pb2.StepBatch(generation=3, attempt=2, reporter="worker:1", subject="worker:1")


class Told(NamedTuple):
    """All that was told of a loop, the newest state, and how often the short way was gone, and tried."""

    columns: dict[str, list[float]]
    tail: Any
    counted: int
    left: int
    short: int
    tried: int


def told(
    loop: Loop,
    write: Callable[[np.ndarray], None],
    ends: Sequence[float],
    delay: float,
    short: bool,
) -> Told:
    """What is found when the ring is read at these times, the newest `delay` seconds unsettled."""
    from tfscale.trainer.probe.express import Express
    from tfscale.trainer.probe.ring import ring
    from tfscale.trainer.probe.staging import Staging

    rows = ring()
    assert rows is not None
    rows.clear()
    staging, assembler = Staging([], rows), StepAssembler()
    fold = Fold(loop.sites.all, loop.kinds, assembler)
    express = Express(fold, assembler)
    found: list[telemetry_pb2.StepBatch] = []

    def tell(message: bytes) -> None:
        (batch,) = report_pb2.TaskReport.FromString(message).steps
        assert (batch.generation, batch.attempt, batch.reporter, batch.subject) == (3, 2, "worker:1", "worker:1")
        found.append(batch)

    messages = Messages(HEAD.SerializeToString(), tell)
    assert loop.run.counter is not None
    loop.run.counter.count = 0
    left, went, tried, before = 0, 0, 0, 0.0
    for end in [*ends, math.inf]:
        write(loop.read(before, end))
        before = end
        if express.is_on:
            tried += 1
            if end < math.inf and express.go(end - delay):
                went += 1
                continue
            _, left, _ = express.end()
        taken = rows.take().rows
        left += loop.kinds.collectives(taken)
        steps = fold.feed(taken, [], [], end - delay)
        assembler.drain_activities(end if end < math.inf else loop.at)
        found += [telemetry_pb2.StepBatch(**columns) for columns in batches("worker:1", steps, 0)]
        if short:
            express.begin(staging, messages, Collective(0, left, None))
    columns = {
        name: [value for batch in found for value in _column(batch, name)]
        for name in ("sequence", "global_step", "end", *PHASES)
    }
    return Told(columns, assembler.tail, loop.run.counter.count, left, went, tried)


def _column(batch: telemetry_pb2.StepBatch, name: str) -> Sequence[float]:
    return list(getattr(batch, name)) or [math.nan] * len(batch.sequence)


def assert_same(mine: Told, theirs: Told) -> None:
    """Either way they were told."""
    for name, column in theirs.columns.items():
        np.testing.assert_allclose(mine.columns[name], column, rtol=1e-6, atol=1e-6, err_msg=name)
    assert mine[1:4] == theirs[1:4]


@settings(max_examples=60, deadline=None)
@given(loops(), st.lists(st.floats(0, 1), min_size=2, max_size=8), st.sampled_from([0.0, 0.003, 0.02]))
def test_the_short_way_tells_what_the_long_way_does(
    write: Callable[[np.ndarray], None], loop: Loop, cuts: list[float], delay: float
) -> None:
    ends = sorted(1000 + cut * (loop.at - 1000) for cut in cuts)
    mine, theirs = (told(loop, write, ends, delay, short) for short in (True, False))
    assert theirs.short == 0
    assert_same(mine, theirs)


@pytest.mark.usefixtures("ring")
@pytest.mark.parametrize("collective", [True, False])
def test_usual_steps_go_the_short_way(write: Callable[[np.ndarray], None], collective: bool) -> None:
    loop = Loop(collective)
    for each in range(100):
        loop.step((2, 3, 5, 20 + each % 3, 10), amount=float(each % 2))
    found = told(loop, write, [1000.5, 1001.5, 1002.5, 1003.5], 0.02, short=True)
    assert found.short == 3
    assert found.columns["sequence"] == list(range(100))
    assert found.columns["global_step"] == list(range(8, 108))
    assert all(map(math.isnan, found.columns["reduce"])) is not collective


@pytest.mark.usefixtures("ring")
def test_what_is_unusual_goes_the_long_way_and_only_that(write: Callable[[np.ndarray], None]) -> None:
    loop = Loop()
    for part in range(2):
        for _ in range(60):
            loop.step((2, 3, 5, 20, 10))
        if not part:
            loop.at += 1.5
    # The first, and the read with the pause, or none at all.
    assert told(loop, write, [1000.5, 1001.5, 1002.3, 1004.5, 1005.5, 1006], 0.02, short=True).short == 4


@pytest.mark.usefixtures("ring")
def test_metrics_beside_the_steps_go_the_long_way(write: Callable[[np.ndarray], None]) -> None:
    assert told(usual(100), write, [1000.5, 1001.5, 1002.5, 1003.5], 0.02, short=True).short == 0


class Ear:
    """A sink that takes messages."""

    refused = None

    def __init__(self) -> None:
        self.messages = Messages(HEAD.SerializeToString(), self._tell)
        self.reports: list[Report] = []
        self.told: list[report_pb2.TaskReport] = []

    def send(self, report: Report) -> None:
        self.reports.append(report)

    def _tell(self, message: bytes) -> None:
        self.told.append(report_pb2.TaskReport.FromString(message))

    def close(self, _timeout: float) -> None:
        pass


class Training:
    """A loop that a probe reads and an ear hears."""

    def __init__(self, ring: Any, write: Callable[[np.ndarray], None]) -> None:
        from tfscale.trainer.probe.probe import Probe
        from tfscale.trainer.probe.staging import Staging

        self.probe, self.ear = Probe(), Ear()
        self.probe.recorder.staging = Staging([], ring)
        self.probe.add(self.ear)
        self.loop = Loop(sites=self.probe.recorder.sites, kinds=self.probe.recorder.row_kinds)
        # What activities are told to last goes by the clock.
        self.loop.at = time.time()
        self._write = write
        self._read_until = 0.0

    def second(self, amount: float = 0.0) -> tuple[int, int]:
        """How many steps each way tells, of 25."""
        for _ in range(25):
            self.loop.step((2, 3, 5, 20, 10), amount=amount)
        self._write(self.loop.read(self._read_until, self.loop.at))
        self._read_until = self.loop.at
        self.ear.reports.clear()
        self.ear.told.clear()
        self.probe._report(self.loop.at - 0.02)
        short = sum(len(batch.sequence) for report in self.ear.told for batch in report.steps)
        return sum(len(report.steps) for report in self.ear.reports), short


def test_steps_go_the_short_way_until_there_is_something_else_to_say(
    ring: Any, write: Callable[[np.ndarray], None]
) -> None:
    from tfscale.trainer.probe.activities import CHECKPOINT

    training = Training(ring, write)
    probe, ear = training.probe, training.ear
    assert training.second() == (24, 0)
    assert training.second() == (0, 25)
    assert (ear.told[0].collective.entered, ear.told[0].collective.left) == (0, 50)
    with probe._activities.during(CHECKPOINT):
        assert training.second() == (25, 0)
    assert training.second() == (25, 0)
    assert training.second() == (0, 25)
    probe.flush()
    assert [step.sequence for report in ear.reports for step in report.steps] == [124]
    assert ear.reports[-1].collective.left == 125
    probe.remove(ear)


def test_the_size_of_a_step_is_told_when_it_changes(ring: Any, write: Callable[[np.ndarray], None]) -> None:
    training = Training(ring, write)

    def told() -> list[tuple[int | None, int | None]]:
        statuses = [report.status for report in training.ear.reports if report.status]
        return [(status.reduced_bytes_per_step, status.examples_per_step) for status in statuses]

    assert training.second() == (24, 0)
    assert told() == [(1000, 64)]
    assert training.second() == (0, 25)
    assert told() == []
    assert training.second(amount=4.0) == (0, 25)
    assert told() == [(1008, 72)]
    training.loop.evaluation()
    assert training.second() == (25, 0)
    # One step with more examples was not settled before.
    newest = told()
    assert newest == [(1000, 72)]
    short = 0
    while not short:
        _, short = training.second(amount=4.0)
        newest += told()
    assert newest[-1] == (1008, 72)


def test_a_probe_that_failed_tells_no_more_steps(
    ring: Any, write: Callable[[np.ndarray], None], capsys: pytest.CaptureFixture[str]
) -> None:
    training = Training(ring, write)
    assert [training.second(), training.second()] == [(24, 0), (0, 25)]
    training.probe.fail(RuntimeError("broken on purpose"))
    assert "broken on purpose" in capsys.readouterr().err
    assert [training.second(), training.second(), training.second()] == [(0, 0)] * 3
    # Its thread would go on to empty the ring, of which there is one.
    assert training.probe._thread is not None
    training.probe._finish(training.probe._thread)


def test_a_run_of_another_program_is_told_of_by_the_long_way(ring: Any, write: Callable[[np.ndarray], None]) -> None:
    loop = Loop()
    for part in range(2):
        for _ in range(40):
            loop.step((2, 3, 5, 20, 10))
        if not part:
            loop.trace_again()
    found = told(loop, write, [1000.5, 1001, 1001.5, 1002, 1002.5, 1003], 0.02, short=True)
    assert found.columns["sequence"] == list(range(80))
    assert found.short == 3
    assert len(ring.take().rows) == 0


@pytest.mark.usefixtures("ring")
def test_what_is_never_told_the_short_way_is_tried_less_and_less_often(write: Callable[[np.ndarray], None]) -> None:
    loop = Loop()
    for _ in range(600):
        # The next batch is fetched ahead.
        loop.at -= 3 * MS
        loop.step((2, 3, 5, 20, 10))
    found = told(loop, write, [1000.0 + each / 2 for each in range(1, 47)], 0.02, short=True)
    # At the 2nd, 4th, 8th, 16th, 32nd.
    assert (found.short, found.tried) == (0, 5)
    assert found.columns["sequence"] == list(range(600))
