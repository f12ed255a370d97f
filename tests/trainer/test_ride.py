"""A probe whose thread stays in the library while nothing but usual steps comes, and its agent."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_cluster import wait_until
from loop_rows import Loop
from report_listener import ReportListener
from tfscale.core.moments import PERIOD
from tfscale.trainer.probe.activities import CHECKPOINT
from tfscale.trainer.probe.entry.identity import Identity
from tfscale.trainer.probe.reporter import Reporter
from tfscale.trainer.probe.spans import Kind, Span
from tfscale.v1 import report_pb2, telemetry_pb2

pytestmark = pytest.mark.tensorflow


class Ridden:
    """A loop of 25 steps a second whose rows are read by a probe, once a second as always, and told to an agent."""

    def __init__(self, ring: Any, write: Callable[[np.ndarray], None], path: Path) -> None:
        from tfscale.trainer.probe.probe import Probe
        from tfscale.trainer.probe.staging import Staging

        self.heard: list[report_pb2.TaskReport] = []
        self.agent_reads = threading.Event()
        self.agent_reads.set()
        self._path = path
        self.listen()
        self.reporter = Reporter(Identity(str(path), "worker:1", generation=3, attempt=2), lambda *_: None)
        wait_until(lambda: self.heard)
        self.probe = Probe()
        self.probe.recorder.staging = Staging([], ring)
        self.probe.add(self.reporter)
        self.loop = Loop(sites=self.probe.recorder.sites, kinds=self.probe.recorder.row_kinds)
        self.loop.at = time.time()
        self._write = write
        self.reads: list[float] = []
        """When Python was asked."""
        self._report = self.probe._report
        self.probe._report = self._noted
        self.probe.start()

    def listen(self) -> None:
        """There is an agent."""
        self.agent = ReportListener(self._path, self._hear)

    def _hear(self, report: report_pb2.TaskReport) -> None:
        self.agent_reads.wait()
        self.heard.append(report)

    def _noted(self, horizon: float) -> None:
        self.reads.append(time.monotonic())
        self._report(horizon)

    def train(self, seconds: float, amount: float = 0.0) -> None:
        until = self.loop.at + seconds
        while self.loop.at < until:
            before = self.loop.at
            self.loop.step((2, 3, 5, 20, 10), amount=amount)
            time.sleep(max(0.0, self.loop.at - time.time()))
            self._write(self.loop.read(before, self.loop.at))

    def train_until_python_is_not_asked(self) -> None:
        for _ in range(10):
            if self.reads_in(2 * PERIOD) == 0:
                return
        raise AssertionError(f"Python was asked {len(self.reads)} times")

    def reads_in(self, seconds: float, amount: float = 0.0) -> int:
        """How often Python is asked while it trains."""
        self.reads.clear()
        self.train(seconds, amount)
        return len(self.reads)

    @property
    def sequences(self) -> list[int]:
        return [number for report in self.heard for batch in report.steps for number in batch.sequence]

    def end(self) -> None:
        """All steps were told once, in their order."""
        self.probe._stop.set()
        self.probe.flush()
        self.reporter.close(5.0)
        self.agent.close(5.0)
        assert self.sequences == list(range(self.loop.steps))


@pytest.fixture
def ridden(ring: Any, write: Callable[[np.ndarray], None], tmp_path: Path) -> Iterator[Ridden]:
    ridden = Ridden(ring, write, tmp_path / "s")
    ridden.train_until_python_is_not_asked()
    yield ridden
    thread = ridden.probe._thread
    assert thread is not None
    begun = time.monotonic()
    ridden.probe._finish(thread)
    # Whoever rides comes back at once.
    assert time.monotonic() - begun < PERIOD / 2
    assert not thread.is_alive()


def test_python_is_not_asked_while_nothing_but_usual_steps_comes(ridden: Ridden) -> None:
    told = len(ridden.heard)
    assert ridden.reads_in(3 * PERIOD) == 0
    # As many as moments fell into this time.
    assert 2 <= len(ridden.heard) - told <= 4
    newest = ridden.heard[-1]
    # One may not be settled yet.
    assert newest.collective.left - len(ridden.sequences) in (0, 1)
    assert 20 <= len(newest.steps[0].sequence) <= 30
    ridden.end()


def test_what_else_there_is_to_say_is_told_as_ever(ridden: Ridden) -> None:
    probe = ridden.probe
    with probe._activities.during(CHECKPOINT):
        assert ridden.reads_in(1.5 * PERIOD) > 0
    ridden.train_until_python_is_not_asked()
    now = time.time()
    probe.recorder._append(Span(probe.recorder.sites.eager(Kind.RUN, "by itself"), now, now))
    assert ridden.reads_in(2 * PERIOD) > 0
    assert {each.kind for report in ridden.heard for each in report.activities} == {
        telemetry_pb2.ACTIVITY_KIND_CHECKPOINT
    }
    ridden.train_until_python_is_not_asked()
    # A step that is larger than those before.
    assert ridden.reads_in(1.5 * PERIOD, amount=4.0) > 0
    ridden.end()
    sizes = [report.probe.reduced_bytes_per_step for report in ridden.heard if report.HasField("probe")]
    assert sizes[-1] == 1008


def test_a_fit_is_asked_for_until_it_is_over(ridden: Ridden) -> None:
    progress = ridden.probe._progress
    for fit in range(2):
        progress.epoch_begun(fit)
        for batch in range(2):
            progress.batch_ended({"loss": 1.0 / (1 + batch)}, None)
            assert ridden.reads_in(2 * PERIOD) > 0
        progress.batch_ended({"loss": 0.25}, None)
        progress.ended()
        ridden.train_until_python_is_not_asked()
    ridden.end()
    told = [(each.training.epoch, each.training.loss) for each in ridden.heard if each.HasField("training")]
    assert told == [(fit, loss) for fit in range(2) for loss in (1.0, 0.5, 0.25)]


def test_who_pauses_the_probe_is_alone(ridden: Ridden) -> None:
    with ridden.probe.paused():
        told = len(ridden.heard)
        ridden.train(2 * PERIOD)
        assert len(ridden.heard) == told
    ridden.train(PERIOD)
    ridden.end()


def test_a_process_that_was_forked_rides_not(ridden: Ridden) -> None:
    with warnings.catch_warnings():
        # Later Pythons warn of it in a process with threads.
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        with ridden.probe._activities.during(CHECKPOINT):
            os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert ridden.reads_in(2 * PERIOD) == 0
    ridden.end()


def test_an_agent_that_goes_is_followed_by_another(ridden: Ridden) -> None:
    ridden.agent.close()
    ridden.train(2 * PERIOD)
    ridden.listen()
    ridden.train_until_python_is_not_asked()
    ridden.end()


def test_an_agent_that_does_not_read_is_waited_for(ridden: Ridden) -> None:
    agent = ridden.reporter._agent
    assert agent is not None
    # Linux makes it 4,608 bytes, for two or three messages.
    agent.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    ridden.agent_reads.clear()
    assert ridden.reads_in(5 * PERIOD) >= 2
    ridden.agent_reads.set()
    ridden.train_until_python_is_not_asked()
    ridden.end()


def test_steps_of_a_clock_that_was_set_have_no_phases(ridden: Ridden) -> None:
    ridden.heard.clear()
    ridden.probe._clock.offset.value += 1.0
    ridden.train(2 * PERIOD)
    whole = [bool(batch.compute) for report in ridden.heard for batch in report.steps]
    assert [one for one, other in pairwise([*whole, None]) if one is not other] == [False, True]
    ridden.heard.clear()
