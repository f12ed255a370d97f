"""The probe's thread and what it reports to an agent: a training loop's rows are written into this process's ring."""

from __future__ import annotations

import ctypes
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from local_cluster import wait_until
from loop_rows import Loop
from report_listener import ReportListener
from tfscale.core.records.probe_status import ProbeState
from tfscale.trainer.probe.process.activities import CHECKPOINT
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report.reporter import Reporter
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.rows.row_layout import WIDTH
from tfscale.trainer.probe.rows.spans import Kind, Span
from tfscale.trainer.probe.steps.usual_steps import UsualSteps
from tfscale.v1 import report_pb2, telemetry_pb2

FORKS = """
import os, sys
from tfscale.trainer.probe.probe import Probe

class Closed:
    refused = None
    def send(self, report): pass
    def close(self, seconds): os.write(1, b"closed by %d\\n" % os.getpid())

probe = Probe(3600.0, read_offset=0.0)
probe.add_sink(Closed())
probe.start()
if os.fork() == 0:
    sys.exit()
os.wait()
print("parent", os.getpid(), flush=True)
"""

pytestmark = pytest.mark.tensorflow

PERIOD = 0.25
"""Seconds from read to read of the probe in these tests."""


class Training:
    """A loop of 25 steps a second, the probe that reads its rows, and the agent that the probe reports to."""

    def __init__(self, ring: Any, write: Callable[[np.ndarray], None], path: Path) -> None:
        from tfscale.trainer.probe.probe import Probe
        from tfscale.trainer.probe.rows.row_buffer import RowBuffer

        self.heard: list[report_pb2.TaskReport] = []
        self.agent_reads = threading.Event()
        self.agent_reads.set()
        self._path = path
        self.listen()
        self.reporter = Reporter(Identity(str(path), "worker:1", generation=3, attempt=2), lambda *_: None)
        wait_until(lambda: self.heard)
        self.probe = Probe(PERIOD, read_offset=0.0)
        self.probe.recorder.graphs.buffer = RowBuffer([], ring)
        self.probe.add_sink(self.reporter)
        self.loop = Loop(sites=self.probe.recorder.sites, kinds=self.probe.recorder.graphs.row_kinds)
        # The first row of a kind takes long to write, as its writer is traced.
        write(np.array([[self.loop.row, *[0.0] * (WIDTH - 1)]]))
        ring.clear()
        self.loop.at = time.time()
        self._write = write
        self.probe.start()

    def listen(self) -> None:
        """Start an agent."""
        self.agent = ReportListener(self._path, self._hear)

    def _hear(self, report: report_pb2.TaskReport) -> None:
        self.agent_reads.wait()
        self.heard.append(report)

    def train(self, seconds: float, amount: float = 0.0) -> None:
        until = self.loop.at + seconds
        while self.loop.at < until:
            before = self.loop.at
            self.loop.step((2, 3, 5, 20, 10), amount=amount)
            time.sleep(max(0.0, self.loop.at - time.time()))
            self._write(self.loop.read(before, self.loop.at))

    def train_and_hear(self, reports: int) -> None:
        """Train until so many more reports have arrived: one a period, unless the machine has other work."""
        before = len(self.heard)
        while len(self.heard) < before + reports:
            self.train(PERIOD)

    @property
    def batches(self) -> list[telemetry_pb2.StepBatch]:
        return [batch for report in self.heard for batch in report.steps]

    @property
    def sequences(self) -> list[int]:
        return [number for batch in self.batches for number in batch.sequence]

    def end(self) -> None:
        """End the training, and require that each step was reported once, in order."""
        self.probe._stop.set()
        self.probe.flush()
        self.reporter.close(60.0)
        self.agent.close(60.0)
        assert self.sequences == list(range(self.loop.steps))


@pytest.fixture
def training(ring: Any, write: Callable[[np.ndarray], None], tmp_path: Path) -> Iterator[Training]:
    from tfscale.trainer.probe.probe import _CLOSING_SECONDS

    training = Training(ring, write, tmp_path / "s")
    training.train(2 * PERIOD)
    yield training
    thread = training.probe._thread
    assert thread is not None
    begun = time.monotonic()
    training.probe._finish()
    assert time.monotonic() - begun < _CLOSING_SECONDS
    assert not thread.is_alive()


def test_steps_are_reported_once_a_period(training: Training) -> None:
    before, begin = len(training.heard), time.time()
    training.train_and_hear(8)
    reports = training.heard[before:]
    assert len(reports) <= (time.time() - begin) / PERIOD + 2
    newest = training.heard[-1]
    # A step of the last 20 ms may not be settled yet.
    assert newest.collective.left - len(training.sequences) in (0, 1)
    assert 4 <= median(len(report.steps[0].sequence) for report in reports) <= 9
    training.end()


def test_activities_eager_spans_and_new_sizes_come_between_usual_steps(training: Training) -> None:
    probe = training.probe
    with probe._activities.during(CHECKPOINT):
        training.train(1.5 * PERIOD)
    training.train(2 * PERIOD)
    now = time.time()
    probe.recorder.eager.spans.append(Span(probe.recorder.sites.eager(Kind.RUN, "by itself"), now, now))
    training.train(2 * PERIOD)
    training.train(2 * PERIOD, amount=4.0)
    training.end()
    assert {each.kind for report in training.heard for each in report.activities} == {
        telemetry_pb2.ACTIVITY_KIND_CHECKPOINT
    }
    sizes = [report.probe.reduced_bytes_per_step for report in training.heard if report.HasField("probe")]
    assert sizes[-1] == 1008


def test_the_loss_of_a_fit_is_reported_until_it_is_over(training: Training) -> None:
    progress = training.probe.progress
    for fit in range(2):
        progress.epoch_begun(fit)
        for batch in range(2):
            progress.batch_ended(0, {"loss": 1.0 / (1 + batch)}, None)
            training.train_and_hear(2)
        progress.batch_ended(0, {"loss": 0.25}, None)
        progress.ended()
        training.train_and_hear(2)
    training.end()
    told = [(each.training.epoch, each.training.loss) for each in training.heard if each.HasField("training")]
    assert told == [(fit, loss) for fit in range(2) for loss in (1.0, 0.5, 0.25)]


def test_a_paused_probe_reports_nothing(training: Training) -> None:
    with training.probe.paused():
        # What was sent before may still be on its way.
        time.sleep(0.1)
        heard = len(training.heard)
        training.train(3 * PERIOD)
        assert len(training.heard) == heard
    training.train(PERIOD)
    training.end()


def test_another_agent_hears_what_the_first_one_did_not(training: Training) -> None:
    training.agent.close()
    training.train(2 * PERIOD)
    training.listen()
    training.train(4 * PERIOD)
    training.end()


def test_reports_wait_for_an_agent_that_does_not_read(training: Training) -> None:
    agent = training.reporter._agent
    assert agent is not None
    # Linux makes it 4,608 bytes, for a few messages.
    agent.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    training.agent_reads.clear()
    training.train(16 * PERIOD)
    assert training.reporter._reports
    training.agent_reads.set()
    training.train(2 * PERIOD)
    training.end()


def test_steps_of_a_clock_that_was_set_have_no_phases(training: Training) -> None:
    training.train(2 * PERIOD)
    with training.probe.paused():
        # What was sent before may still be on its way.
        time.sleep(0.1)
        training.heard.clear()
        training.probe._clock.offset += 1.0
    training.train(4 * PERIOD)
    whole = [bool(batch.compute) for batch in training.batches]
    assert [one for one, other in pairwise([*whole, None]) if one is not other] == [False, True]
    training.heard.clear()


class Reports:
    """A sink that keeps reports."""

    refused = None

    def __init__(self) -> None:
        self.kept: list[ProbeReport] = []

    def send(self, report: ProbeReport) -> None:
        self.kept.append(report)

    def close(self, _timeout: float) -> None:
        pass


class Seconds:
    """A loop of some 25 steps a second, and the probe that reads its rows second by second."""

    def __init__(self, ring: Any, write: Callable[[np.ndarray], None]) -> None:
        from tfscale.trainer.probe.probe import Probe
        from tfscale.trainer.probe.rows.row_buffer import RowBuffer

        self.probe, self.reports = Probe(), Reports()
        self.probe.recorder.graphs.buffer = RowBuffer([], ring)
        self.probe.add_sink(self.reports)
        self.loop = Loop(sites=self.probe.recorder.sites, kinds=self.probe.recorder.graphs.row_kinds)
        # Activities go by the clock.
        self.loop.at = time.time()
        self._write = write
        self._read_until = 0.0

    def next(self, amount: float = 0.0) -> list[ProbeReport]:
        """Return what is reported of 25 steps."""
        for _ in range(25):
            self.loop.step((2, 3, 5, 20, 10), amount=amount)
        self._write(self.loop.read(self._read_until, self.loop.at))
        self._read_until = self.loop.at
        self.reports.kept.clear()
        self.probe._report(self.loop.at - 0.02)
        return self.reports.kept


@pytest.fixture
def seconds(ring: Any, write: Callable[[np.ndarray], None]) -> Seconds:
    return Seconds(ring, write)


def test_a_loss_or_an_activity_keeps_no_steps_from_the_fast_path(seconds: Seconds) -> None:
    probe = seconds.probe
    (first,) = seconds.next()
    assert (type(first.steps), len(first.steps)) == (list, 24)
    (second,) = seconds.next()
    assert (type(second.steps), len(second.steps)) == (UsualSteps, 25)
    assert (second.collective.entered, second.collective.left) == (0, 50)
    probe.progress.epoch_begun(3)
    probe.progress.batch_ended(0, {"loss": 0.5}, None)
    with probe._activities.during(CHECKPOINT):
        (third,) = seconds.next()
        assert third.training is not None and third.training.loss == 0.5
        assert [(each.kind, each.end) for each in third.activities] == [(CHECKPOINT, None)]
        assert (type(third.steps), len(third.steps)) == (UsualSteps, 25)
        time.sleep(0.06)
    (fourth,) = seconds.next()
    (ended,) = fourth.activities
    assert ended.end is not None and ended.end - ended.begin >= 0.05
    assert len(fourth.steps) == 25
    probe.flush()
    newest = seconds.reports.kept[-1]
    assert [step.sequence for step in newest.steps] == [99]
    assert newest.collective.left == 100
    probe.remove_sink(seconds.reports)


def test_the_size_of_a_step_is_reported_when_it_changes(seconds: Seconds) -> None:
    def sizes(reports: list[ProbeReport]) -> list[tuple[int | None, int | None]]:
        return [
            (report.status.reduced_bytes_per_step, report.status.examples_per_step)
            for report in reports
            if report.status
        ]

    assert sizes(seconds.next()) == [(1000, 64)]
    assert sizes(seconds.next()) == []
    assert sizes(seconds.next(amount=4.0)) == [(1008, 72)]
    seconds.loop.evaluation()
    # One step with more examples was not settled before.
    assert sizes(seconds.next()) == [(1000, 72)]
    assert sizes(seconds.next(amount=4.0)) == [(1008, 72)]


def test_a_probe_that_failed_reports_no_more_steps(seconds: Seconds, capsys: pytest.CaptureFixture[str]) -> None:
    assert [len(report.steps) for report in [*seconds.next(), *seconds.next()]] == [24, 25]
    seconds.probe.fail(RuntimeError("broken on purpose"))
    assert "broken on purpose" in capsys.readouterr().err
    assert not any(report.steps for _ in range(3) for report in seconds.next())
    # Its thread would go on to empty the ring, of which there is one.
    assert seconds.probe._thread is not None
    seconds.probe._finish()


@pytest.mark.usefixtures("end_of_python")
def test_at_the_end_of_python_it_is_told_why_nothing_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfscale.trainer.compat.listings import erratum, no_training
    from tfscale.trainer.probe.probe import Probe

    heard: list[report_pb2.TaskReport] = []
    agent = ReportListener(tmp_path / "s", heard.append)
    monkeypatch.setattr(no_training, "_asked_in_vain", True)
    probe = Probe(PERIOD, read_offset=0.0)
    probe.report_to(lambda: Reporter(Identity(str(tmp_path / "s"), "worker:1", 3, 2), lambda *_: None))
    monkeypatch.setattr(erratum, "listeners", [probe.report_note])
    probe._end_untrained()
    wait_until(lambda: any(report.probe.warnings for report in heard))
    told = [line for report in heard for line in report.probe.warnings]
    assert told[0].startswith("nothing was trained: the script asks for GPUs")
    agent.close()


def test_a_probe_whose_thread_the_script_ends_says_so(seconds: Seconds, capsys: pytest.CaptureFixture[str]) -> None:
    seconds.next()
    seconds.probe.start()
    thread = seconds.probe._thread
    assert thread is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    thread.join(60)
    (*_, report) = seconds.reports.kept
    assert report.status is not None and report.status.state is ProbeState.DISABLED
    assert "its thread was ended by SystemExit()" in report.status.message
    assert "its thread was ended by SystemExit()" in capsys.readouterr().err


def test_a_forked_child_reports_nothing_when_it_ends() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=240, check=True)
    parent, closed = ran.stdout.splitlines()
    assert closed.split()[-1] == parent.split()[-1]
