"""Recorder of spans around calls: by stamps in the graph being traced, or by the clock where Python runs eagerly."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.core.cluster.strategy import LOCAL
from tfscale.trainer.probe.graph.gradient_checks import GradientChecks, with_gradients
from tfscale.trainer.probe.graph.row_writer import RowWriter
from tfscale.trainer.probe.graph.structures import (
    after,
    count_examples,
    dense_bytes,
    dense_tensors,
    eager_examples,
    fixed_bytes,
    is_looped,
    iterations,
    loop_inside,
    other_bytes,
    replica_tensors,
    sparse_gradients,
    updates_fed_by,
    wire_type,
)
from tfscale.trainer.probe.graph.traced_run import Reduction, TracedRun, changes_variables, reduced_updates
from tfscale.trainer.probe.rows.awaited_ops import collectives
from tfscale.trainer.probe.rows.row_buffer import RowBuffer
from tfscale.trainer.probe.rows.row_kinds import SpanTable
from tfscale.trainer.probe.rows.row_layout import NO_ROWS
from tfscale.trainer.probe.rows.spans import Counter, Distribution, Kind, Site, Sites, Span
from tfscale.trainer.tf_internals import context, dtensor, is_in_xla

Call = Callable[[], Any]


class _Surroundings(threading.local):
    """Kinds of recorded calls that the current thread is in."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()


class Recorder:
    """Recorder of what the hooks see, until it is read. TensorFlow's own errors pass through.

    `on_failure` is called with a failure of the recorder's own; `on_run` when the program first runs or
    traces a step, in the thread that does it; `on_gradient` when it first computes gradients, which a replica does in
    a thread of its own.
    """

    def __init__(
        self,
        on_failure: Callable[[Exception], None],
        on_run: Callable[[], None] = lambda: None,
        on_gradient: Callable[[], None] = lambda: None,
    ) -> None:
        self.sites = Sites()
        self._writer = RowWriter()
        self.row_kinds = self._writer.kinds
        self.gradient_checks = GradientChecks(self.row_kinds)
        self.buffer: RowBuffer | None = None
        self.eager: deque[Span] = deque(maxlen=100_000)
        self.eager_entered = 0
        self.is_between_steps = False
        """True while eager code is inside a collective that is no part of a step, also after that has failed."""
        self.xla_seen = False
        self.dtensor_seen = False
        self.stamps_graphs = True
        """True if this TensorFlow has all names that stamps in graphs need."""
        self.splits: Callable[[Distribution], bool] = lambda _: True
        """Function that returns whether the reductions of a program are hooked; if not, its steps are shown whole."""
        self.before_writing: list[Callable[[Any], None]] = []
        """Functions that are called with each graph that has been traced, before its stamps are written."""
        self._on_failure = on_failure
        self._on_run = on_run
        self._on_gradient = on_gradient
        self._around = _Surroundings()
        self._eager_run: TracedRun | None = None
        self._graph_runs: dict[int, TracedRun] = {}
        self._compiled: dict[Hashable, TracedRun] = {}
        """Runs of functions that XLA compiles, as they were traced."""
        self._unresolved: list[Reduction] = []
        self._lock = threading.Lock()
        self._enabled = True
        self._paused = False
        self.has_run = False
        """True once the program has run or traced a step."""
        self.trains = False
        """True once the program has computed gradients."""

    def disable(self) -> None:
        """Record nothing from now on; stamps in graphs already traced stay there."""
        self._enabled = False

    @property
    def _is_on(self) -> bool:
        return self._enabled and not self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in this block: what is traced in it carries no stamps."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """Keep a failure in this block from the program: it is the probe's own."""
        try:
            yield
        except Exception as error:
            self.disable()
            self._on_failure(error)

    def input(self, call: Call) -> Any:
        """Record `call`, which asks for a batch."""
        with self._within(Kind.INPUT) as first:
            if not first:
                return call()
            if tf.executing_eagerly():
                return self._input_eagerly(call)
            return self._in_graph(call, Kind.INPUT)

    def reduction(self, call: Call, handed: Any, distribution: Distribution, gathers: bool = False) -> Any:
        """Record `call`, which reduces or `gathers` what is `handed` to it; its span begins when that is ready."""
        with self._within(Kind.REDUCE) as first:
            if not first:
                return call()
            if tf.executing_eagerly():
                return self._reduce_eagerly(call, handed, distribution, gathers)
            return self._in_graph(call, Kind.REDUCE, handed, distribution, gathers)

    def run(
        self, call: Call, distribution: Distribution, key: Hashable, standalone: bool = False, compiled: bool = False
    ) -> Any:
        """Record `call`, which is a step or a part of one; `key` identifies the place in the program.

        A run inside a run belongs to it. An optimizer outside of `Strategy.run` is a `standalone` run. What XLA has
        `compiled` is a run if it updates variables from gradients; else it may only compute gradients.
        """
        if not self._enabled:
            # The probe reports why nothing is recorded.
            self._note_run()
        if not self._is_on or self._current_run() is not None:
            return call()
        self._note_run()
        if tf.executing_eagerly():
            return self._run_eagerly(call, distribution, key, standalone, compiled)
        if not self._can_stamp():
            return call()
        return self._run_in_graph(call, distribution, standalone, key if compiled else None)

    def gradient(self, call: Call, sources: Any = None) -> Any:
        """Record `call`, which computes the gradients of `sources`."""
        result = call()
        self.note_training()
        if self._is_on:
            with self.own_work():
                self._note_gradient(result, sources)
        return result

    def note_training(self) -> None:
        """Note that the program computes gradients, wherever it does."""
        if not self.trains:
            self.trains = True
            with self.own_work():
                self._on_gradient()

    def note_applied(self, counter: Counter | None) -> None:
        """Note that an optimizer applies gradients in the current run."""
        if (run := self._current_run()) is not None:
            run.trains = run.applies = True
            run.counter = run.counter or counter

    @property
    def entered(self) -> int:
        """Number of collectives entered so far; readable while the main thread is blocked in one."""
        return self.eager_entered + (self.buffer.entered if self.buffer else 0)

    def drain(self) -> tuple[np.ndarray, list[Span], int]:
        """Return the rows since the last call, the spans of eager code, and the number of rows that were lost."""
        eager = [self.eager.popleft() for _ in range(len(self.eager))]
        rows, lost = self.buffer.read() if self.buffer else (NO_ROWS, 0)
        if len(rows):
            self._resolve()
        return self.gradient_checks.taken_out(rows), eager, lost

    def forget(self) -> None:
        """Throw away the rows that graphs with stamps still write once the recorder is disabled."""
        if self.buffer:
            self.buffer.clear()

    def table_of(self, rows: np.ndarray) -> SpanTable:
        """Return the spans in rows of a worker on another machine."""
        if len(rows):
            self._resolve()
        return self.row_kinds.table(rows)

    def write_stamps(self, graph: Any) -> None:
        """Write the stamps of a graph that has been traced."""
        with self.own_work():
            for call in self.before_writing:
                call(graph)
        with self.own_work():
            self._writer.write(graph, self._made_buffer)

    @property
    def graph_buffer(self) -> RowBuffer | None:
        """Row buffer for the graph being traced; None if it cannot be stamped."""
        return self._made_buffer() if self._is_on and self._can_stamp() else None

    def add(self, site: Site, *values: tf.Operation | tf.Tensor) -> None:
        """Have a span written together with those of its graph."""
        self._writer.add(site, *values)

    def _resolve(self) -> None:
        """Decide whether updates wait for reductions that lie in another graph than their run; all are traced now."""
        unresolved, self._unresolved = self._unresolved, []
        for reduction in unresolved:
            reduction.site.overlaps_updates = not updates_fed_by(reduction.ops)

    @contextmanager
    def _within(self, kind: Kind) -> Iterator[bool]:
        """Yield whether a call of this kind is to be recorded; inside another of the same kind it is part of that."""
        if not self._is_on or kind in self._around.kinds:
            yield False
            return
        self._around.kinds.add(kind)
        try:
            yield True
        finally:
            self._around.kinds.discard(kind)

    def _current_run(self) -> TracedRun | None:
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        while graph is not None:
            if (run := self._graph_runs.get(id(graph))) is not None:
                return run
            graph = getattr(graph, "outer_graph", None)
        return self._eager_run

    def _note_run(self) -> None:
        if not self.has_run:
            self.has_run = True
            with self.own_work():
                self._on_run()

    def _input_eagerly(self, call: Call) -> Any:
        begin = time.time()
        result = call()
        end = time.time()
        with self.own_work():
            self.eager.append(Span(self.sites.eager(Kind.INPUT), begin, end, eager_examples(result)))
        return result

    def _reduce_eagerly(self, call: Call, handed: Any, distribution: Distribution, gathers: bool) -> Any:
        meets = distribution.replicas > 1
        self.eager_entered += meets
        self.is_between_steps = meets and self._eager_run is None
        begin = time.time()
        result = call()
        end = time.time()
        self.is_between_steps = False
        with self.own_work():
            traits = self._reduction_traits(handed, distribution, gathers)
            self.eager.append(Span(self.sites.eager(Kind.REDUCE, **traits), begin, end))
        return result

    def _run_eagerly(
        self, call: Call, distribution: Distribution, key: Hashable, standalone: bool, compiled: bool
    ) -> Any:
        run = self._eager_run = TracedRun(unsplit=not self.splits(distribution))
        begin = time.time()
        try:
            result = call()
        finally:
            self._eager_run = None
        end = time.time()
        with self.own_work():
            site = self.sites.eager(Kind.RUN, key, distribution=distribution, begins=not standalone)
            if compiled:
                self._note_compiled(run)
            # What was traced in the first pass is not seen again in the next ones.
            site.trains |= run.trains
            site.applies |= run.applies
            site.micro_batches = max(site.micro_batches, _micro_batches(run))
            site.unsplit |= run.unsplit
            site.counter = run.counter or site.counter
            self._unresolved += run.reductions
            if compiled and site.trains and not site.unsplit:
                self._note_gradient(result)
            else:
                self.eager.append(Span(site, begin, end))
        return result

    def _note_gradient(self, result: Any, sources: Any = None) -> None:
        run = self._current_run()
        if run is not None:
            run.trains = True
            if not tf.executing_eagerly():
                run.unsplit |= self._is_xla()
                run.loop = run.loop or loop_inside(tf.compat.v1.get_default_graph(), self._graph_runs)
                run.gradients[len(run.gradients)] = dense_tensors(result)
                run.variables += [] if sources is None else [with_gradients(sources, result)]
        elif tf.executing_eagerly():
            now = time.time()
            self.eager.append(Span(self.sites.eager(Kind.GRADIENT), now, now))
        elif self._can_stamp():
            buffer = self._made_buffer()
            stamp = buffer.stamp(dense_tensors(result))
            self._writer.add(self.sites.traced(Kind.GRADIENT, looped=is_looped(stamp.graph)), stamp)

    def _in_graph(
        self,
        call: Call,
        kind: Kind,
        handed: Any = None,
        distribution: Distribution | None = None,
        gathers: bool = False,
    ) -> Any:
        if not self._can_stamp():
            return call()
        begun: tuple[RowBuffer, Site, tf.Operation] | None = None
        with self.own_work():
            buffer = self._made_buffer()
            traits = {} if distribution is None else self._reduction_traits(handed, distribution, gathers)
            site = self.sites.traced(kind, looped=is_looped(tf.compat.v1.get_default_graph()), **traits)
            ready = [*dense_tensors(handed), *self._stamp_replicas(buffer, site, handed)]
            begun = buffer, site, buffer.stamp(ready, enters=site.collective)
        before = len(tf.compat.v1.get_default_graph().get_operations())
        result = call()
        if begun is None:
            return result
        with self.own_work():
            if kind is Kind.REDUCE:
                added = tf.compat.v1.get_default_graph().get_operations()[before:]
                self._end_reduction(*begun, handed, result, collectives(added))
            else:
                return self._end_input(*begun, result)
        return result

    def _reduction_traits(self, handed: Any, distribution: Distribution, gathers: bool) -> dict[str, Any]:
        in_run = self._current_run() is not None
        replica, sparse = replica_tensors(handed)[0], sparse_gradients(handed)
        return {
            "bytes": fixed_bytes(replica),
            "gathered": fixed_bytes(replica if gathers else replica_tensors(sparse)[0]),
            "gathers_more": gathers or bool(sparse),
            "dense_bytes": dense_bytes(sparse),
            "wire_type": wire_type(replica),
            "in_run": in_run,
            "overlaps_updates": not in_run,
            "collective": distribution.replicas > 1,
            "local": distribution.collective == LOCAL,
        }

    def _end_input(self, buffer: RowBuffer, site: Site, begin: tf.Operation, result: Any) -> Any:
        made = _made_in(begin.graph, result)
        end = buffer.stamp(made, carrier=next(iter(made), None))
        site.examples, more = count_examples(result)
        self._writer.add(site, begin, end, *more)
        return after(end, result, whole=buffer.delays_whole_batch(made))

    def _end_reduction(
        self,
        buffer: RowBuffer,
        site: Site,
        begin: tf.Operation,
        handed: Any,
        result: Any,
        exchanges: list[tf.Operation],
    ) -> None:
        made, run = _made_in(begin.graph, result), self._current_run()
        # A check that came after the end of its step would be told of the next one.
        checks = self.gradient_checks.add(buffer, site, handed, run)
        end = buffer.stamp([*(exchanges or made), begin, *checks]) if site.collective else begin
        if run is not None:
            run.reductions.append(Reduction(site, dense_tensors(result), end))
        replica = replica_tensors(handed)[0]
        # Variables that are handed over are read inside the reduction, so it is unknown when they were ready. Between
        # hosts it was the end of the collective before.
        ready = begin if replica or not site.local else end
        self._writer.add(site, *([ready, end, *other_bytes(replica)] if site.collective else [begin]))

    def _stamp_gradients(self, site: Site, graph: Any, run: TracedRun) -> None:
        """Stamp the gradients of each of several replicas in a micro-batch, which reduces nothing."""
        gradients = [_made_in(graph, tensors) for tensors in run.gradients.values()]
        if len(gradients) == site.distribution.local_replicas > 1 and all(gradients):
            self._write_ready(self._made_buffer(), site, gradients)

    def _stamp_replicas(self, buffer: RowBuffer, site: Site, handed: Any) -> list[tf.Operation]:
        """Return a stamp of each of several replicas that hand something to a reduction inside a run."""
        replicas = replica_tensors(handed) if site.in_run else []
        return self._write_ready(buffer, site, replicas) if len(replicas) > 1 and all(replicas) else []

    def _write_ready(self, buffer: RowBuffer, site: Site, replicas: list[list[tf.Tensor]]) -> list[tf.Operation]:
        stamps = [buffer.stamp(tensors) for tensors in replicas]
        for index, ready in enumerate(stamps):
            self._writer.add(self.sites.traced(Kind.READY, replica=index, reduction=site), ready)
        return stamps

    def _run_in_graph(self, call: Call, distribution: Distribution, standalone: bool, compiled: Hashable | None) -> Any:
        graph = tf.compat.v1.get_default_graph()
        begun: list[tf.Operation] = []
        with self.own_work():
            # Where the graph asks for the batch itself, the run begins with that.
            begun += [] if self._writer.has_input(graph) else [self._made_buffer().stamp([])]
        before = len(graph.get_operations())
        run = self._graph_runs[id(graph)] = TracedRun(unsplit=not self.splits(distribution), begun=begun)
        try:
            result = call()
        finally:
            del self._graph_runs[id(graph)]
        with self.own_work():
            if compiled is not None:
                run = self._compiled_run(compiled, run)
                if not run.unsplit:
                    if run.trains:
                        self._note_gradient(result)
                    return result
            site = self.sites.traced(
                Kind.RUN, looped=is_looped(graph), standalone_optimizer=standalone, distribution=distribution
            )
            self._end_run(site, graph, run, result, graph.get_operations()[before:])
        return result

    def _note_compiled(self, run: TracedRun) -> None:
        run.unsplit = changes_variables(run)
        self.xla_seen |= run.unsplit

    def _compiled_run(self, key: Hashable, run: TracedRun) -> TracedRun:
        """Return the run with what was seen when its function was traced, which may have been earlier."""
        self._note_compiled(run)
        traced = self._compiled.get(key)
        if traced is None or run.trains:
            self._compiled[key] = traced = replace(run, gradients={})
        return replace(traced, begun=run.begun)

    def _end_run(self, site: Site, graph: Any, run: TracedRun, result: Any, added: list[tf.Operation]) -> None:
        site.trains, site.unsplit, site.counter = run.trains, run.unsplit, run.counter
        site.begins = bool(run.begun)
        site.applies, site.micro_batches = run.applies, _micro_batches(run)
        largest = max((reduction.site for reduction in run.reductions), key=lambda site: site.bytes, default=None)
        site.wire_type = largest.wire_type if largest else ""
        here = [reduction for reduction in run.reductions if reduction.stamp.graph is graph]
        self._unresolved += [reduction for reduction in run.reductions if reduction.stamp.graph is not graph]
        if not run.reductions:
            self._stamp_gradients(site, graph, run)
        waited_for = reduced_updates(here, added) or _made_in(graph, result)
        # A run ends after the stamps of its reductions, too: on a busy machine they may come late.
        awaited = [reduction for reduction in here if not reduction.site.overlaps_updates] or here
        end = self._made_buffer().stamp([*waited_for, *(reduction.stamp for reduction in awaited)])
        self._writer.add(site, *run.begun, end)

    def _is_xla(self) -> bool:
        return self.stamps_graphs and bool(is_in_xla(tf.compat.v1.get_default_graph()))

    def _can_stamp(self) -> bool:
        if not self.stamps_graphs:
            return False
        if getattr(dtensor, "_dtensor_singleton", None) is not None:
            self.dtensor_seen = True
            self._note_run()
            return False
        if self._is_xla():
            self.xla_seen = True
            return False
        if self.buffer is None and context.context()._context_handle is None:
            # TensorFlow has run nothing yet: a question about GPUs now would prevent a strategy from being made later.
            return False
        return tf.compat.v1.get_default_graph().experimental_acd_manager is not None

    def _made_buffer(self) -> RowBuffer:
        with self._lock:
            if self.buffer is None:
                self.buffer = RowBuffer()
            return self.buffer


def _micro_batches(run: TracedRun) -> int:
    return 1 if run.loop is None else iterations(run.loop)


def _made_in(graph: Any, result: Any) -> list[tf.Tensor]:
    """Return the tensors of a result that lie in this graph."""
    return [tensor for tensor in dense_tensors(result) if tensor.graph is graph]
