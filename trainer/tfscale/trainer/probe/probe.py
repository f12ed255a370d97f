"""The probe of a training process: reads what the hooks recorded, once a second, and reports steps."""

from __future__ import annotations

import atexit
import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tfscale.core.moments import PERIOD, READ, until_next
from tfscale.trainer.compat import sigterm
from tfscale.trainer.probe.activities import Activities, Activity, Announcer
from tfscale.trainer.probe.clock import ClockWatch
from tfscale.trainer.probe.columns import without_phases
from tfscale.trainer.probe.express import Express
from tfscale.trainer.probe.fold import Fold
from tfscale.trainer.probe.graph.distribution import program_of
from tfscale.trainer.probe.graph.recorder import Recorder
from tfscale.trainer.probe.hooks import tensorflow_hooks, tpu
from tfscale.trainer.probe.hooks.keras_hooks import KerasHooks
from tfscale.trainer.probe.hooks.parameter_server import ParameterServer
from tfscale.trainer.probe.hooks.patches import Patches
from tfscale.trainer.probe.progress import Progress
from tfscale.trainer.probe.report import Collective, Report, Sink, Training
from tfscale.trainer.probe.status import Status, keras_version, tensorflow_version
from tfscale.trainer.probe.steps import StepAssembler
from tfscale.trainer.probe.workers import Coordinator

_SETTLING_SECONDS = 0.02
"""Spans younger than this wait for the next read: a neighbour with an earlier end may still be on its way."""
_CLOSING_SECONDS = 2 * PERIOD
"""For what does not fit into the socket until the agent makes its next frame."""


class Probe:
    """Owns the recorder and the thread that reports. Any failure inside is told once and ends the measuring only."""

    def __init__(self) -> None:
        self.recorder = Recorder(on_failure=self.fail, on_run=self.start, on_news=self._halt)
        self._activities = Activities(on_change=self._halt)
        self._announcer = Announcer()
        self._progress = Progress(on_begin=self._halt)
        self._patches = Patches(on_fault=self.note_fault)
        self._keras = KerasHooks(self._patches, self.recorder, self._activities, self._progress)
        self._parameter_server = ParameterServer(self.recorder, on_server=self.start)
        self._status = Status()
        self._assembler = StepAssembler()
        self._fold = Fold(self.recorder.sites.all, self.recorder.row_kinds, self._assembler)
        self._express = Express(self._fold, self._assembler)
        self._clock = ClockWatch()
        self._entered = 0
        self._left = 0
        self._entered_at: float | None = None
        self._was_inside = False
        self._told_status: Status | None = None
        self._told_training: Training | None = None
        self._makers: list[Callable[[], Sink]] = []
        self._sinks: list[Sink] = []
        self._reading = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def install(self) -> None:
        """Hook into TensorFlow, before the script makes its strategy."""
        with self.recorder.own_work():
            tensorflow_hooks.install(self._patches, self.recorder, self._activities, self._strategy_made)
            self._parameter_server.install(self._patches)
            tpu.install(self._patches)
        sigterm.watch_preemption_handlers()

    def install_keras(self, module: str) -> None:
        """Hook into a module of Keras."""
        with self.recorder.own_work():
            self._keras.install(module)

    def tell(self, make: Callable[[], Sink]) -> None:
        """Report to the sink that `make` makes, from the program's first run on."""
        self._makers.append(make)

    def add(self, sink: Sink) -> None:
        """Report to this sink, too, what is recorded from now on."""
        with self._alone():
            self._flush()
            self._sinks.append(sink)
            # Whoever comes late has heard nothing yet.
            self._told_status = self._told_training = None
        if self.recorder.has_run:
            self.start()

    def remove(self, sink: Sink) -> None:
        """Report to this sink all that has been recorded, and close it. The measuring goes on: another may come."""
        with self._alone():
            self._flush()
            self._sinks.remove(sink)
        sink.close(0.0)

    def start(self) -> None:
        """Begin to read and report, once there is something to say: the task may have helpers in which nothing ever
        trains. Where nobody listens what is read is thrown away."""
        if self._thread is None:
            self._sinks += [make() for make in self._makers]
            self._thread = threading.Thread(target=self._watch, name="tfscale-probe", daemon=True)
            self._thread.start()
            atexit.register(self._finish, self._thread)

    def fail(self, error: Exception) -> None:
        """Stop measuring because of a failure of the probe's own; tell stderr once, and whoever listens."""
        if self._status.disabled:
            return
        self._give_up()
        self._set_status(replace(self._status, disabled=f"the probe failed and measures no more: {error!r}"))
        print(f"tfscale: {self._status.disabled}; the training goes on", file=sys.stderr)
        with contextlib.suppress(Exception):
            self.start()

    def _give_up(self) -> None:
        """Measure no more, and take the hooks back."""
        self.recorder.disable()
        self._parameter_server.stop()
        self._patches.undo()

    def note_fault(self, fault: str) -> None:
        """Report a hook or a repair that this TensorFlow or Keras does not allow, in one line."""
        self._set_status(replace(self._status, faults=(*self._status.faults, fault)))

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """In this block nothing is read or reported, and what is traced carries no stamps."""
        with self._alone(), self.recorder.paused():
            yield

    def flush(self) -> None:
        """Report all that has been recorded so far."""
        with self._alone():
            self._flush()

    def _flush(self) -> None:
        self._parameter_server.settle()
        self._report(math.inf)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody reads in this block but whoever is in it."""
        with self._reading:
            self._halt()
            yield

    def _halt(self) -> None:
        """Have the thread come back that reads: there is more to see than rows."""
        self._express.halt()

    def _set_status(self, status: Status) -> None:
        self._status = status
        self._halt()

    def _strategy_made(self, strategy: Any) -> None:
        self._set_status(replace(self._status, program=program_of(strategy)))
        self._parameter_server.strategy_made(strategy)
        self.start()

    def _watch(self) -> None:
        for _ in self._moments():
            if self._reading.locked():
                # Whoever pauses the probe, or reads all, wants nothing of this read; the next one has it.
                continue
            with self._reading:
                self._report(time.time() - _SETTLING_SECONDS)
            if self._status.disabled:
                break
            if self._sinks and all(sink.refused is not None for sink in self._sinks):
                self._give_up()
                break
        while not self._stop.wait(PERIOD):
            with contextlib.suppress(Exception):
                self.recorder.forget()

    def _moments(self) -> Iterator[None]:
        """When there is something to read, until the probe is to stop."""
        while not self._stop.wait(until_next(time.time() - READ, 0)):
            yield
            while self._has_ridden():
                yield

    def _has_ridden(self) -> bool:
        """Whether the library has read by itself, and something has come now that it leaves to others."""
        try:
            return self._mounted() and self._express.ride(self._clock, _SETTLING_SECONDS)
        except Exception as error:
            self.fail(error)
            return False

    def _mounted(self) -> bool:
        """Whether the library can go on by itself."""
        with self._reading:
            if not self._express.mount():
                return False
            # Whoever has something to say from here on calls for a halt.
            is_asked = self._stop.is_set() or self._has_news() or self._progress.is_on
            if is_asked or not self._is_size_told():
                self._halt()
                return False
            return True

    def _finish(self, thread: threading.Thread) -> None:
        self._stop.set()
        self._express.halt(now=True)
        thread.join(1.0)
        self.flush()
        for sink in self._sinks:
            sink.close(_CLOSING_SECONDS)

    def _report(self, horizon: float) -> None:
        try:
            jumped = self._clock.jumped()
            if self._express.is_on and self._went_express(horizon, jumped):
                return
            report = Report(self._collective()) if self._status.disabled else self._read(horizon, jumped)
        except Exception as error:
            self.fail(error)
            report = Report(self._collective())
        self._send(report)
        self._board(horizon)

    def _board(self, horizon: float) -> None:
        """Let the steps that come from now on go the short way, as long as nothing else comes."""
        if self._status.disabled or math.isinf(horizon) or self._has_news():
            return
        if self._parameter_server.workers or len(self._sinks) != 1:
            return
        messages, staging = self._sinks[0].messages, self.recorder.staging
        if messages is not None and staging is not None:
            self._express.begin(staging, messages, self._collective())

    def _went_express(self, horizon: float, jumped: bool) -> bool:
        """Whether nothing has come but usual steps, which were told."""
        told = self._express.collective
        self._was_inside = told.entered > told.left
        if jumped or math.isinf(horizon) or self._has_news() or not self._express.go(horizon):
            self._entered, self._left, self._entered_at = self._express.end()
            return False
        if not self._is_size_told():
            self._status = self._status.with_step(*self._express.amounts)
        training = self._progress.read()
        if training not in (None, self._told_training) or self._status is not self._told_status:
            self._send(Report(self._express.collective, training=training))
        return True

    def _is_size_told(self) -> bool:
        """Whether the steps that go the short way are as large as the status says."""
        return self._status.with_step(*self._express.amounts) == self._status

    def _has_news(self) -> bool:
        """Whether there is more to look at than rows."""
        return bool(
            self.recorder.eager
            or self._activities.has_changed
            or self._status is not self._told_status
            or self.recorder.xla_seen is not self._status.xla
        )

    def _read(self, horizon: float, jumped: bool) -> Report:
        """The steps that were finished before `horizon`, and what else there is to say; the clock may have `jumped`."""
        changes = self._activities.drain()
        rows, eager, lost = self.recorder.drain()
        # Counted after the spans were read: what was left had been entered before.
        self._count_entered(self.recorder.entered)
        self._left += self.recorder.row_kinds.collectives(rows) + sum(span.site.collective for span in eager)
        if lost:
            self._left = self._entered
        steps = self._fold.feed(rows, eager, _intervals(changes), horizon)
        if steps and not self._status.measuring:
            sigterm.end_on_sigterm()
        measured = self._parameter_server.workers.drain()
        if self._clock.jumped() or jumped:
            steps = without_phases(steps)
            measured = [each._replace(steps=without_phases(each.steps)) for each in measured]
        by_workers = [step for each in measured for step in each.steps]
        self._status = replace(
            self._status.after(steps or by_workers),
            xla=self.recorder.xla_seen,
            tensorflow=tensorflow_version(),
            keras=keras_version(),
            checkpoint=self._activities.checkpointed,
        )
        inferred = self._assembler.drain_activities(max(time.time(), horizon))
        told = self._announcer.worth_telling(changes, inferred)
        return Report(self._collective(), None, self._progress.read(), steps, lost, told, measured, self._coordinator())

    def _coordinator(self) -> Coordinator | None:
        return self._parameter_server.workers.coordinator()

    def _count_entered(self, entered: int) -> None:
        if entered != self._entered:
            self._entered, self._entered_at = entered, time.time()

    def _collective(self) -> Collective:
        return Collective(self._entered, self._left, self._entered_at)

    def _send(self, report: Report) -> None:
        """To every sink, unless it says nothing new."""
        status = None if self._status == self._told_status else self._status
        training = None if report.training == self._told_training else report.training
        inside = self._entered > self._left
        news = report.steps or report.lost or report.activities or report.coordinator
        if status or training or news or inside or self._was_inside:
            for sink in self._sinks:
                sink.send(report._replace(status=status, training=training))
        self._was_inside = inside
        self._told_status, self._told_training = self._status, report.training or self._told_training


def _intervals(changes: list[Activity]) -> list[tuple[float, float]]:
    return [(change.begin, change.end) for change in changes if change.end is not None]
