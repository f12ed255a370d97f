"""Recorder of calls that Python makes eagerly: it reads the clock before and after each."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.trainer.probe.graph.recording_switch import RecordingSwitch
from tfscale.trainer.probe.graph.structures import eager_examples
from tfscale.trainer.probe.graph.traced_run import RunPlace, TracedRun, UnresolvedReductions, reduction_traits
from tfscale.trainer.probe.graph.whole_runs import WholeRuns
from tfscale.trainer.probe.rows.spans import Distribution, Kind, Sites, Span

_MOST_SPANS = 100_000
"""Spans that are kept until the next read. With ten spans in a step of 1 ms these are ten seconds: a tenth would
lose steps whenever one read comes late; ten times as many would take over 100 MB if nobody reads."""


class _Unpacked(NamedTuple):
    """Input that gave a `tf.experimental.Optional`, whose batch the program has not taken out so far."""

    optional: tf.experimental.Optional
    begin: float
    end: float


class _OwnInput(threading.local):
    """Newest input of the current thread, as long as its examples are not counted."""

    unpacked: _Unpacked | None = None


class EagerRecorder:
    """Recorder of eager calls, with their spans until these are read."""

    def __init__(
        self, switch: RecordingSwitch, sites: Sites, whole: WholeRuns, unresolved: UnresolvedReductions
    ) -> None:
        self._switch = switch
        self._sites = sites
        self._whole = whole
        self._unresolved = unresolved
        self.spans: deque[Span] = deque(maxlen=_MOST_SPANS)
        self._own = _OwnInput()
        self.entered = 0
        """Number of collectives entered."""
        self.is_between_steps = False
        """True while eager code is inside a collective outside of all steps; also after such a collective has
        failed."""
        self.current_run: TracedRun | None = None
        """Run that goes on; a function that is traced meanwhile belongs to this run."""

    def drain(self) -> list[Span]:
        """Return the spans since the last call."""
        return [self.spans.popleft() for _ in range(len(self.spans))]

    def input(self, call: Callable[[], Any]) -> Any:
        """Record `call`, which asks for a batch."""
        begin = time.time()
        result = call()
        end = time.time()
        with self._switch.own_work():
            if isinstance(result, tf.experimental.Optional):
                self._close_input()
                # To take the batch out costs as much as many a step's input; the program does so itself.
                self._own.unpacked = _Unpacked(result, begin, end)
            else:
                self._add(Span(self._sites.eager(Kind.INPUT), begin, end, eager_examples(result)))
        return result

    def taken_out(self, optional: tf.experimental.Optional, batch: Any) -> None:
        """Count the examples of the batch that the program has taken out of what an input gave."""
        if self._own.unpacked is not None and self._own.unpacked.optional is optional:
            self._close_input(eager_examples(batch))

    def _close_input(self, examples: float = 0.0) -> None:
        if (unpacked := self._own.unpacked) is not None:
            self._own.unpacked = None
            self.spans.append(Span(self._sites.eager(Kind.INPUT), unpacked.begin, unpacked.end, examples))

    def _add(self, span: Span) -> None:
        self._close_input()
        self.spans.append(span)

    def reduction(self, call: Callable[[], Any], handed: Any, distribution: Distribution, gathers: bool) -> Any:
        """Record `call`, which reduces or `gathers` the tensors in `handed`."""
        meets, in_run = distribution.replicas > 1, self.current_run is not None
        self.entered += meets
        self.is_between_steps = meets and not in_run
        begin = time.time()
        result = call()
        end = time.time()
        self.is_between_steps = False
        with self._switch.own_work():
            traits = reduction_traits(handed, distribution, gathers=gathers, in_run=in_run)
            self._add(Span(self._sites.eager(Kind.REDUCE, **traits), begin, end))
        return result

    def run(self, call: Callable[[], Any], run: TracedRun, place: RunPlace) -> Any:
        """Record `call`, a step or a part of one at this place of the program."""
        self.current_run = run
        begin = time.time()
        try:
            result = call()
        finally:
            self.current_run = None
        end = time.time()
        with self._switch.own_work():
            site = self._sites.eager(
                Kind.RUN, place.key, distribution=place.distribution, begins=not place.is_optimizer
            )
            if place.whole:
                self._whole.mark(run)
            # The first pass traces functions; the next ones do not observe again what is in these.
            site.trains |= run.trains
            site.applies |= run.applies
            site.micro_batches = max(site.micro_batches, run.micro_batches)
            site.unsplit |= run.unsplit
            site.asks |= run.asks
            site.updates = max(site.updates, run.updates)
            site.counter = run.counter or site.counter
            self._unresolved.add(run.reductions)
            if place.whole and site.trains and not site.unsplit:
                self.gradient(result)
            else:
                self._add(Span(site, begin, end))
        return result

    def gradient(self, *_: Any) -> None:
        """Record that gradients have just been computed."""
        if self.current_run is not None:
            self.current_run.trains = True
            return
        now = time.time()
        self._add(Span(self._sites.eager(Kind.GRADIENT), now, now))
