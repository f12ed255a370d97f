"""Recorder of the calls that the hooks pass on: by stamps in a graph being traced, by the clock in eager code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.graph.eager_recorder import EagerRecorder
from tfscale.trainer.probe.graph.graph_recorder import GraphRecorder
from tfscale.trainer.probe.graph.recording_switch import RecordingSwitch
from tfscale.trainer.probe.graph.traced_run import RunPlace, TracedRun, UnresolvedReductions
from tfscale.trainer.probe.graph.whole_runs import WholeRuns
from tfscale.trainer.probe.rows.spans import Counter, Distribution, Kind, Sites, Span

Call = Callable[[], Any]


class _Surroundings(threading.local):
    """Kinds of recorded calls that the current thread is in."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()


class Recorder:
    """Recorder of the calls that the hooks see, with spans and rows until these are read.

    Errors of TensorFlow pass through. `on_failure` is called with a failure of the recorder's own; `on_run` when the
    program first runs or traces a step, in the thread that does so; `on_gradient` when the program first computes
    gradients, which a replica does in a thread of its own.
    """

    def __init__(
        self,
        on_failure: Callable[[Exception], None],
        on_run: Callable[[], None] = lambda: None,
        on_gradient: Callable[[], None] = lambda: None,
    ) -> None:
        self.switch = RecordingSwitch(on_failure)
        self.sites = Sites()
        self.whole = WholeRuns()
        unresolved = UnresolvedReductions()
        self.eager = EagerRecorder(self.switch, self.sites, self.whole, unresolved)
        self.graphs = GraphRecorder(
            switch=self.switch,
            sites=self.sites,
            whole=self.whole,
            unresolved=unresolved,
            eager=self.eager,
            on_dtensor=self._note_run,
        )
        self.splits: Callable[[Distribution], bool] = lambda _: True
        """Function that returns whether the reductions of a program are hooked; if not, its steps are shown whole."""
        self._on_run = on_run
        self._on_gradient = on_gradient
        self._around = _Surroundings()
        self.has_run = False
        """True once the program has run or traced a step."""
        self.trains = False
        """True once the program has computed gradients."""

    def input(self, call: Call) -> Any:
        """Record `call`, which asks for a batch."""
        with self._within(Kind.INPUT) as is_outermost:
            return self._here().input(call) if is_outermost else call()

    def taken_out(self, call: Call, optional: tf.experimental.Optional) -> Any:
        """Record that `call` takes the batch out of an optional, which `input` may have recorded."""
        batch = call()
        if self.switch.is_on and tf.executing_eagerly():
            with self.switch.own_work():
                self.eager.taken_out(optional, batch)
        return batch

    def reduction(self, call: Call, handed: Any, distribution: Distribution, gathers: bool = False) -> Any:
        """Record `call`, which reduces or `gathers` the tensors in `handed`; its span begins when they are ready."""
        with self._within(Kind.REDUCE) as is_outermost:
            return self._here().reduction(call, handed, distribution, gathers) if is_outermost else call()

    def run(
        self, call: Call, distribution: Distribution, key: Hashable, standalone: bool = False, whole: bool = False
    ) -> Any:
        """Record `call`, which is a step or a part of a step; `key` identifies the place in the program.

        A run inside a run belongs to it. An optimizer outside of `Strategy.run` is a `standalone` run. A function
        whose graph takes no stamps is a `whole` run if it updates variables from gradients; else it may only compute
        gradients.
        """
        if self.switch.disabled:
            # The probe reports why nothing is recorded.
            self._note_run()
        here = self._here()
        if not self.switch.is_on or here.current_run is not None:
            return call()
        self._note_run()
        run = TracedRun(unsplit=not self.splits(distribution))
        result = here.run(call, run, RunPlace(distribution, key, standalone, whole))
        if here is self.eager and run.trains:
            # What a graph before it computed is no step of now.
            self.graphs.step_graph = None
        return result

    def gradient(self, call: Call, sources: Any = None) -> Any:
        """Record `call`, which computes the gradients of `sources`."""
        result = call()
        if not self.switch.is_apart:
            self.note_training()
        if self.switch.is_on:
            with self.switch.own_work():
                self._here().gradient(result, sources)
        return result

    def note_training(self) -> None:
        """Note that the program computes gradients."""
        if not self.trains:
            self.trains = True
            with self.switch.own_work():
                self._on_gradient()

    def note_applied(self, counter: Counter | None) -> None:
        """Note that an optimizer applies gradients in the current run."""
        # For a traced optimizer of Keras 2 AutoGraph converts this; that of TensorFlow 2.16 knows no `:=` in an `if`.
        run = self._here().current_run
        if run is not None:
            run.trains = True
            run.counter = run.counter or counter
            run.note_applied(counter, self.graphs.loop_around)

    @property
    def entered(self) -> int:
        """Number of collectives entered so far; readable while the main thread is blocked in one."""
        return self.eager.entered + self.graphs.entered

    def drain(self) -> tuple[np.ndarray, list[Span], int]:
        """Return the rows since the last call, the spans of eager code, and the number of rows that were lost."""
        spans = self.eager.drain()
        rows, lost = self.graphs.drain()
        return rows, spans, lost

    def _here(self) -> EagerRecorder | GraphRecorder:
        """Return the recorder for the way in which the calling thread runs."""
        return self.eager if tf.executing_eagerly() else self.graphs

    @contextmanager
    def _within(self, kind: Kind) -> Iterator[bool]:
        """Yield whether to record a call of this kind: a call inside another of its kind is a part of that call."""
        if not self.switch.is_on or kind in self._around.kinds:
            yield False
            return
        self._around.kinds.add(kind)
        try:
            yield True
        finally:
            self._around.kinds.discard(kind)

    def _note_run(self) -> None:
        if not self.has_run:
            self.has_run = True
            with self.switch.own_work():
                self._on_run()
