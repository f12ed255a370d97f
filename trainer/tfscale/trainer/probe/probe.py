"""The probe of a training process: reads what the hooks recorded, four times a second, and reports steps."""

from __future__ import annotations

import atexit
import contextlib
import math
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from tfscale.trainer.compat import sigterm
from tfscale.trainer.probe import hooks
from tfscale.trainer.probe.clock import ClockWatch
from tfscale.trainer.probe.recorder import Recorder
from tfscale.trainer.probe.reporter import Identity, Reporter
from tfscale.trainer.probe.spans import Kind, Span
from tfscale.trainer.probe.status import Status, keras_version, tensorflow_version
from tfscale.trainer.probe.steps import UNKNOWN, Step, StepAssembler
from tfscale.trainer.probe.wire import Collective, report

READ_SECONDS = 0.25
_SETTLING_SECONDS = 0.02
"""Spans younger than this wait for the next read: a neighbour with an earlier end may still be on its way."""


class Probe:
    """Owns the recorder and the thread that reports. Any failure inside is told once and ends the measuring only."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._recorder = Recorder(on_failure=self.fail)
        self._status = Status()
        self._assembler = StepAssembler()
        self._pending: list[Span] = []
        self._clock = ClockWatch()
        self._entered = 0
        self._left = 0
        self._entered_at: float | None = None
        self._was_inside = False
        self._reported: Status | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def install(self) -> None:
        """Hook into TensorFlow, before the script makes its strategy."""
        hooks.install(self._recorder, self._strategy_made)
        sigterm.watch_preemption_handlers()

    def fail(self, error: Exception) -> None:
        """Stop measuring because of a failure of the probe's own; tell stderr once and the agent."""
        if self._status.disabled:
            return
        self._recorder.disable()
        self._status = replace(self._status, disabled=f"the probe failed and measures no more: {error!r}")
        print(f"tfscale: {self._status.disabled}; the training goes on", file=sys.stderr)
        with contextlib.suppress(Exception):
            self._start()

    def _strategy_made(self, strategy: Any) -> None:
        extended = strategy.extended
        self._status = replace(
            self._status,
            strategy=_public_name(strategy),
            replicas=strategy.num_replicas_in_sync,
            local_replicas=len(getattr(extended, "worker_devices", ())) or None,
        )
        self._start()

    def _start(self) -> None:
        # Not before there is something to say: the agent listens to one process of the task, which may have helpers.
        if self._thread is None:
            reporter = Reporter(self._identity)
            self._thread = threading.Thread(target=self._watch, args=[reporter], name="tfscale-probe", daemon=True)
            self._thread.start()
            atexit.register(self._finish, reporter, self._thread)

    def _watch(self, reporter: Reporter) -> None:
        while not self._stop.wait(READ_SECONDS):
            self._report(reporter, time.time() - _SETTLING_SECONDS)
            if self._status.disabled:
                return
            if reporter.refused is not None:
                self._recorder.disable()
                return

    def _finish(self, reporter: Reporter, thread: threading.Thread) -> None:
        self._stop.set()
        thread.join(1.0)
        self._report(reporter, math.inf)
        reporter.close(timeout=1.0)

    def _report(self, reporter: Reporter, horizon: float) -> None:
        try:
            steps, lost = ([], 0) if self._status.disabled else self._read(horizon)
        except Exception as error:
            self.fail(error)
            steps, lost = [], 0
        self._send(reporter, steps, lost)

    def _read(self, horizon: float) -> tuple[list[Step], int]:
        """The steps that were finished before `horizon`, and the spans that were lost."""
        spans, lost = self._fresh_spans()
        self._pending = sorted(self._pending + spans, key=lambda span: span.end)
        settled = [span for span in self._pending if span.end <= horizon]
        self._pending = self._pending[len(settled) :]
        steps = self._assembler.feed(settled)
        if steps and not self._status.measuring:
            sigterm.end_on_sigterm()
        if self._clock.jumped():
            steps = [_unknown(step) for step in steps]
        return steps, lost

    def _fresh_spans(self) -> tuple[list[Span], int]:
        # Counted before the spans are read: what is left afterwards had been entered.
        self._count_entered(self._recorder.entered)
        spans, lost = self._recorder.drain()
        self._left += sum(span.site.kind is Kind.REDUCE for span in spans)
        if lost:
            self._left = self._entered
        return spans, lost

    def _count_entered(self, entered: int) -> None:
        if entered != self._entered:
            self._entered, self._entered_at = entered, time.time()

    def _send(self, reporter: Reporter, steps: list[Step], lost: int) -> None:
        self._status = replace(
            self._status.after(steps),
            xla=self._recorder.xla_seen,
            tensorflow=tensorflow_version(),
            keras=keras_version(),
        )
        changed = None if self._status == self._reported else self._status
        inside = self._entered > self._left
        if steps or lost or changed or inside or self._was_inside:
            collective = Collective(self._entered, self._left, self._entered_at)
            reporter.send(report(self._identity, changed, collective, steps, lost))
        self._was_inside = inside
        self._reported = self._status


def _public_name(strategy: Any) -> str:
    """The name under which TensorFlow exports the strategy's class, which may have another of its own."""
    for kind in type(strategy).__mro__:
        names: tuple[str, ...] = getattr(kind, "_tf_api_names", ())
        if names:
            return names[-1].rpartition(".")[2]
    return type(strategy).__name__


def _unknown(step: Step) -> Step:
    return step._replace(update=UNKNOWN, host=UNKNOWN, input=UNKNOWN, compute=UNKNOWN, reduce=UNKNOWN)
