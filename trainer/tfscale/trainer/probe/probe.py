"""Probe of a training process: reads once a second the rows and spans that hooks recorded, and reports steps."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tfscale.core.records.probe_status import Activity, Collective
from tfscale.core.records.training import Training
from tfscale.core.report_schedule import PERIOD, READ_OFFSET, until_offset
from tfscale.trainer.compat import sigterm
from tfscale.trainer.compat.listings import no_training
from tfscale.trainer.compat.listings.erratum import note
from tfscale.trainer.probe.graph.distribution import distribution_of
from tfscale.trainer.probe.graph.recorder import Recorder
from tfscale.trainer.probe.hooks import tensorflow_hooks, tpu_hooks
from tfscale.trainer.probe.hooks.keras_hooks import KerasHooks
from tfscale.trainer.probe.hooks.parameter_server_hooks import ParameterServer
from tfscale.trainer.probe.hooks.patches import Patches
from tfscale.trainer.probe.hooks.process_ends import before_sudden_end
from tfscale.trainer.probe.process import presence
from tfscale.trainer.probe.process.activities import Activities, Announcer
from tfscale.trainer.probe.process.called_python import CalledPython
from tfscale.trainer.probe.process.clock import ClockWatch
from tfscale.trainer.probe.process.memory_peaks import memory_peaks
from tfscale.trainer.probe.process.seen_devices import seen_devices
from tfscale.trainer.probe.process.step_flops import FlopsReader
from tfscale.trainer.probe.process.tracked_runs import tracked_runs
from tfscale.trainer.probe.report.no_step import no_step
from tfscale.trainer.probe.report.progress import Progress
from tfscale.trainer.probe.report.sink import ProbeReport, Sink
from tfscale.trainer.probe.report.status import Status, dtype_policy, keras_version, tensorflow_version
from tfscale.trainer.probe.report.step_columns import without_phases
from tfscale.trainer.probe.rows.spans import Span
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.gradient_watch import GradientWatch
from tfscale.trainer.probe.steps.stage_steps import StageSteps
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.step_reader import StepReader

_SETTLING_SECONDS = 0.02
"""Seconds. Younger spans wait for the next read: a span with an earlier end may still be on its way."""
_TRACING_SECONDS = 30.0
"""Seconds from the first gradients until their optimizer must have been traced. Large models are traced for up to
half a minute: with less they would count as trained by hand meanwhile, with more a program that applies gradients by
hand would hear of it late."""
_HURRY_SECONDS = 1.0
"""Most seconds by which `os._exit` comes later, so that the steps of the last second are reported. A busy agent may
take some tenths of a second; a launcher that waits would notice several seconds."""
_TIMELESS = 2
"""Reads with steps, after the clock was set, whose phases may have begun before."""
_CLOSING_SECONDS = 2 * PERIOD
"""Seconds for reports that do not fit into the socket until the agent makes its next frame."""


class Probe:
    """Recorder, hooks, and the thread that reads and reports. A failure in any of them only ends the measuring.

    Args:
        period: seconds between two reads; all probes of a cluster read at the same time.
        read_offset: seconds from the start of a period, by the wall clock, to its read.
    """

    def __init__(self, period: float = PERIOD, read_offset: float = READ_OFFSET) -> None:
        self.period, self.read_offset = period, read_offset
        self.recorder = Recorder(self.fail, on_run=self._first_run, on_gradient=self.start)
        self.stages = StageSteps()
        self._activities = Activities()
        self._announcer = Announcer()
        self._called_python = CalledPython()
        self.progress = Progress()
        self._patches = Patches(on_fault=self.report_fault)
        self._keras = KerasHooks(self._patches, self.recorder, self._activities, self.progress)
        self._parameter_server = ParameterServer(self.recorder, on_server=self.start)
        self._status = Status()
        self._assembler = StepAssembler()
        self._reader = StepReader(self.recorder.sites.all, self.recorder.graphs.row_kinds, self._assembler)
        self._gradients = GradientWatch()
        self._clock = ClockWatch()
        self._flops = FlopsReader()
        self._timeless = 0
        """Reads with steps to come whose phases are of two clocks."""
        self._started = math.inf
        self._entered = 0
        self._left = 0
        self._entered_at: float | None = None
        self._was_in_collective = False
        self._reported_status: Status | None = None
        self._reported_training: Training | None = None
        self._makers: list[Callable[[], Sink]] = []
        self._sinks: list[Sink] = []
        self._reading = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        os.register_at_fork(after_in_child=self._disown)

    def install(self) -> None:
        """Put the hooks into TensorFlow, before the script makes its strategy."""
        atexit.register(self._end_untrained)
        presence.show()
        with self.recorder.switch.own_work():
            tensorflow_hooks.install(
                self._patches, self.recorder, self._activities, self._called_python, self._strategy_made
            )
            self._parameter_server.install(self._patches)
            tpu_hooks.install(self._patches)
        sigterm.watch_preemption_handlers()

    def install_keras(self, module: str) -> None:
        """Put the hooks into a module of Keras."""
        with self.recorder.switch.own_work():
            self._keras.install(module)

    def report_to(self, make: Callable[[], Sink]) -> None:
        """Report to the sink that `make` returns, from the program's first run on."""
        self._makers.append(make)

    def add_sink(self, sink: Sink) -> None:
        """Report to this sink, too, from now on."""
        with self._reading:
            self._flush()
            self._sinks.append(sink)
            # This sink has heard nothing yet.
            self._reported_status = self._reported_training = None
        if self.recorder.has_run:
            self.start()

    def remove_sink(self, sink: Sink) -> None:
        """Report all recorded steps to this sink, and close it. The measuring goes on for other sinks."""
        with self._reading:
            self._flush()
            self._sinks.remove(sink)
        sink.close(0.0)

    def start(self) -> None:
        """Begin to read and report. Without a sink, rows and spans are thrown away.

        The thread starts only when there is something to report: a task may have helper processes that never train.
        """
        if self._thread is None:
            self._started = time.time()
            self._sinks += [make() for make in self._makers]
            self._thread = threading.Thread(target=self._watch, name="tfscale-probe", daemon=True)
            self._thread.start()
            atexit.register(self._finish)
            before_sudden_end(self._deliver, _HURRY_SECONDS)

    def fail(self, error: Exception) -> None:
        """Stop measuring because of a failure of the probe's own, and report it once, on stderr and to the sinks."""
        if self._status.disabled:
            return
        self._give_up()
        self._status = replace(self._status, disabled=f"the probe failed and measures no more: {error!r}")
        print(f"tfscale: {self._status.disabled}; the training goes on", file=sys.stderr)
        with contextlib.suppress(Exception):
            self.start()

    def _give_up(self) -> None:
        """Measure no more, and take the hooks back."""
        self.recorder.switch.disable()
        self._parameter_server.stop()
        self._patches.undo()

    def report_fault(self, note: str) -> None:
        """Report a hook or repair that cannot be put into this TensorFlow or Keras, by the note about it."""
        self._status = replace(self._status, faults=(*self._status.faults, note))

    def report_note(self, sentence: str) -> None:
        """Report in one line a replacement for a line of the script."""
        self._status = replace(self._status, notes=(*self._status.notes, sentence))

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Read and report nothing in this block; functions that are traced in it have no stamps."""
        with self._reading, self.recorder.switch.paused():
            yield

    def flush(self) -> None:
        """Report all that has been recorded so far."""
        with self._reading:
            self._flush()

    def _flush(self) -> None:
        self._parameter_server.settle()
        self._report(math.inf)

    def _first_run(self) -> None:
        # Keras keeps its policy for each thread; a replica's thread has its default.
        self._status = replace(self._status, dtype_policy=dtype_policy())
        self.start()

    def _strategy_made(self, strategy: Any) -> None:
        self._status = replace(self._status, distribution=distribution_of(strategy))
        self._parameter_server.strategy_made(strategy)
        self.start()

    def _watch(self) -> None:
        try:
            self._read_until_stopped()
        except BaseException as ended:  # by the script, as with PyThreadState_SetAsyncExc
            self.fail(RuntimeError(f"its thread was ended by {ended!r}"))
            self._report(math.inf)

    def _read_until_stopped(self) -> None:
        while not self._stop.wait(until_offset(time.time(), self.read_offset, self.period)):
            if self._reading.locked():
                # Another thread pauses the probe, or reads everything; the next read has what is left.
                continue
            with self._reading:
                self._report(time.time() - _SETTLING_SECONDS)
            if self._status.disabled:
                break
            if self._sinks and all(sink.refused is not None for sink in self._sinks):
                self._give_up()
                break
        while not self._stop.wait(self.period):
            with contextlib.suppress(Exception):
                self.recorder.graphs.forget()

    def _end_untrained(self) -> None:
        """Report a script that ends without a step for a known reason, before the probe's thread was started."""
        if self._thread is None and not self.recorder.trains and (sentence := no_training.sentence()) is not None:
            note(sentence)
            # Python 3.12 and newer start no thread at their end.
            self._sinks += [make() for make in self._makers]
            self._finish()

    def _disown(self) -> None:
        """Report nothing from a forked child: it has the rows, but thread and connection are its parent's.

        A child of a process without a run begins anew with its own first run.
        """
        atexit.unregister(self._end_untrained)
        atexit.unregister(self._finish)
        self._sinks = []

    def _deliver(self) -> None:
        self.flush()
        for sink in self._sinks:
            sink.settle(_HURRY_SECONDS)

    def _finish(self) -> None:
        presence.hide()
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
        self.flush()
        if sentence := no_step(self._status, self.progress.has_fit, self.recorder.has_run, self.recorder.trains):
            self.report_note(sentence)
            self.flush()
        for sink in self._sinks:
            sink.close(_CLOSING_SECONDS)

    def _report(self, horizon: float) -> None:
        try:
            report = ProbeReport(self._collective()) if self._status.disabled else self._read(horizon)
        except Exception as error:
            self.fail(error)
            report = ProbeReport(self._collective())
        self._send(report)

    def _read(self, horizon: float) -> ProbeReport:
        """Return the steps that were over by `horizon`, and all other news."""
        changes = self._activities.drain()
        rows, eager, lost = self.recorder.drain()
        self._count_collectives(rows, eager, lost)
        if by := self._clock.moved():
            self._timeless = _TIMELESS
            rows, eager = self._reader.set_clock(rows, eager, by, time.time())
        steps = self._reader.read(rows, eager, [] if by else _intervals(changes), horizon)
        if self.recorder.graphs.gradient_checks.are_made:
            found = self.recorder.graphs.gradient_checks.drain()
            self._gradients.update(found, steps, self._assembler.sequence, horizon)
        if steps and not self._status.measuring:
            sigterm.end_on_sigterm()
        measured = self._parameter_server.workers.drain()
        stages = self.stages.drain()
        if self._timeless:
            self._timeless -= bool(steps or any(worker.steps for worker in measured) or any(stages.values()))
            steps = without_phases(steps)
            measured = [worker._replace(steps=without_phases(worker.steps)) for worker in measured]
            stages = {stage: without_phases(its_steps) for stage, its_steps in stages.items()}
        self._update_status(steps or [step for worker in measured for step in worker.steps])
        inferred = self._assembler.drain_activities(max(time.time(), horizon))
        return ProbeReport(
            self._collective(),
            training=self._training(),
            steps=steps,
            lost=lost,
            activities=self._announcer.to_report(changes, inferred),
            workers=measured,
            coordinator=self._parameter_server.workers.coordinator(),
            stages=stages,
        )

    def _training(self) -> Training | None:
        training, gradients = self.progress.read(), self._gradients.newest
        if gradients is None:
            return training
        return replace(training or self._reported_training or Training(), gradients=gradients)

    def _update_status(self, steps: Sequence[Step]) -> None:
        if steps and self._status.devices is None:
            self._status = replace(self._status, devices=seen_devices())
        graphs = self.recorder.graphs
        buffer = graphs.buffer
        self._status = replace(
            self._status.after(steps),
            xla=self.recorder.whole.are_seen and not graphs.leaves_stamps_out,
            reaches_others=self.recorder.whole.are_seen and graphs.leaves_stamps_out,
            lost_stamps=self._has_lost_stamps(),
            steps_of_call=self._assembler.steps_of_call,
            own_input=self._assembler.own_input,
            dtensor=graphs.dtensor_seen,
            by_hand=self._is_by_hand(),
            tensorflow=tensorflow_version(),
            keras=keras_version(),
            compiled_stamps=buffer.is_compiled if buffer else None,
            checkpoint=self._activities.checkpointed,
            input_python=self._called_python.per_step(self._assembler.sequence),
            tracked_runs=tracked_runs(),
            flops=self._flops.read(graphs.step_graph, self._status.replica_examples) if self._counts_flops else None,
            memory_peaks=memory_peaks(self._status.devices.gpus) if self._status.devices else (),
        )

    @property
    def _counts_flops(self) -> bool:
        """True where one graph is one step, of which the operations can be counted."""
        return self._status.measuring and self._assembler.steps_of_call == 1 and not self._status.local_steps

    def _has_lost_stamps(self) -> bool:
        """Decide whether the functions that train were traced before the program connected to other processes."""
        graphs = self.recorder.graphs
        return (
            graphs.leaves_stamps_out
            and graphs.lost_stamps
            and self.recorder.trains
            and not self.recorder.whole.are_seen
        )

    def _is_by_hand(self) -> bool:
        """Decide whether the program computes gradients and applies them by hand, past all hooks."""
        recorder, is_late = self.recorder, self._stop.is_set() or time.time() > self._started + _TRACING_SECONDS
        return recorder.trains and not recorder.has_run and is_late

    def _count_collectives(self, rows: np.ndarray, eager: Sequence[Span], lost: int) -> None:
        # Those that were entered are counted after the rows were read: what was left had been entered before.
        if self.recorder.entered != self._entered:
            self._entered, self._entered_at = self.recorder.entered, time.time()
        self._left += self.recorder.graphs.row_kinds.collectives(rows) + sum(span.site.collective for span in eager)
        if lost:
            self._left = self._entered

    def _collective(self) -> Collective:
        return Collective(self._entered, self._left, self._entered_at, self.recorder.eager.is_between_steps)

    def _send(self, report: ProbeReport) -> None:
        """Send the report to every sink, unless it has no news."""
        status = None if self._status == self._reported_status else self._status.record
        training = None if report.training == self._reported_training else report.training
        in_collective = self._entered > self._left
        news = report.steps or report.lost or report.activities or report.coordinator or report.stages
        if status or training or news or in_collective or self._was_in_collective:
            for sink in self._sinks:
                sink.send(report._replace(status=status, training=training))
        self._was_in_collective = in_collective
        self._reported_status, self._reported_training = self._status, report.training or self._reported_training


def _intervals(changes: list[Activity]) -> list[tuple[float, float]]:
    return [(change.begin, change.end) for change in changes if change.end is not None]
