"""Recorder of calls in a graph during its trace: it puts stamps before and after each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.graph.eager_recorder import EagerRecorder
from tfscale.trainer.probe.graph.export import strip_functions
from tfscale.trainer.probe.graph.gradient_checks import GradientChecks, with_gradients
from tfscale.trainer.probe.graph.recording_switch import RecordingSwitch
from tfscale.trainer.probe.graph.row_writer import RowWriter
from tfscale.trainer.probe.graph.structures import (
    after,
    count_examples,
    dense_tensors,
    is_looped,
    loop_inside,
    other_bytes,
    replica_tensors,
)
from tfscale.trainer.probe.graph.traced_run import (
    Reduction,
    RunPlace,
    TracedRun,
    UnresolvedReductions,
    reduced_updates,
    reduction_traits,
)
from tfscale.trainer.probe.graph.whole_runs import WholeRuns
from tfscale.trainer.probe.process.step_flops import StepGraph
from tfscale.trainer.probe.rows.awaited_ops import collectives
from tfscale.trainer.probe.rows.row_buffer import RowBuffer
from tfscale.trainer.probe.rows.row_kinds import SpanTable
from tfscale.trainer.probe.rows.row_layout import NO_ROWS
from tfscale.trainer.probe.rows.spans import Distribution, Kind, Site, Sites
from tfscale.trainer.tf_internals import context, dtensor, is_in_xla


class _Begun(NamedTuple):
    """Span whose first stamp is in the graph."""

    buffer: RowBuffer
    site: Site
    stamp: tf.Operation


class GraphRecorder:
    """Recorder of calls in graphs, with the buffer in which the rows of their stamps wait until they are read.

    `eager` knows the run that Python has begun outside of all graphs; `on_dtensor` is called where DTensor places the
    program's ops, so that no graph can be stamped.
    """

    def __init__(
        self,
        *,
        switch: RecordingSwitch,
        sites: Sites,
        whole: WholeRuns,
        unresolved: UnresolvedReductions,
        eager: EagerRecorder,
        on_dtensor: Callable[[], None],
    ) -> None:
        self._switch = switch
        self._sites = sites
        self._whole = whole
        self._unresolved = unresolved
        self._eager = eager
        self._on_dtensor = on_dtensor
        self._writer = RowWriter()
        self.row_kinds = self._writer.kinds
        self.gradient_checks = GradientChecks(self.row_kinds)
        self.buffer: RowBuffer | None = None
        self.dtensor_seen = False
        self.stamps_graphs = True
        """True if this TensorFlow has all names that stamps in graphs need."""
        self.leaves_stamps_out = False
        """True once graphs may run in other processes, which do not know the op of the stamps."""
        self.lost_stamps = False
        """True once stamps were taken out of graphs that had been traced."""
        self.before_writing: list[Callable[[Any], None]] = []
        """Functions that are called with each graph that has been traced, before its stamps are written."""
        self.step_graph: StepGraph | None = None
        """Newest graph that computes one step; None where steps are not whole in one graph."""
        self._optimizers: WeakKeyDictionary[Any, set[Hashable]] = WeakKeyDictionary()
        """Places of optimizers outside of `Strategy.run` that have applied gradients in a graph."""
        self._runs: dict[int, TracedRun] = {}
        """Runs that are being traced, by the id of their graph."""
        self._lock = threading.Lock()

    @property
    def current_run(self) -> TracedRun | None:
        """Run of the graph that is being traced, or of a graph around it."""
        graph: Any = tf.compat.v1.get_default_graph()
        while graph is not None:
            if (run := self._runs.get(id(graph))) is not None:
                return run
            graph = getattr(graph, "outer_graph", None)
        return self._eager.current_run

    @property
    def entered(self) -> int:
        """Number of collectives entered when the rows were last read."""
        return self.buffer.entered if self.buffer else 0

    @property
    def stampable_buffer(self) -> RowBuffer | None:
        """Row buffer for the graph being traced; None if this graph cannot be stamped."""
        return self._made_buffer() if self._switch.is_on and self._can_stamp() else None

    @property
    def loop_around(self) -> Any:
        """Loop around the graph that is being traced, inside of the current run; None without one."""
        return loop_inside(tf.compat.v1.get_default_graph(), self._runs)

    def reach_others(self) -> None:
        """Leave stamps out of all graphs from now on, also of those traced before: other processes may run them."""
        self.leaves_stamps_out = True
        self.lost_stamps |= strip_functions()

    def keep_on_workers(self, buffer: RowBuffer) -> None:
        """Keep the rows of all graphs from now on in a buffer whose ops are TensorFlow's own."""
        self.buffer = buffer
        self.leaves_stamps_out = False

    def drain(self) -> tuple[np.ndarray, int]:
        """Return the rows since the last call, and the number of rows that were lost."""
        rows, lost = self.buffer.read() if self.buffer else (NO_ROWS, 0)
        if len(rows):
            self._unresolved.resolve()
        return self.gradient_checks.taken_out(rows), lost

    def forget(self) -> None:
        """Throw away the rows that graphs with stamps still write after the end of recording."""
        if self.buffer:
            self.buffer.clear()

    def table_of(self, rows: np.ndarray) -> SpanTable:
        """Return the spans in rows of a worker on another machine."""
        if len(rows):
            self._unresolved.resolve()
        return self.row_kinds.table(rows)

    def write_stamps(self, graph: Any) -> None:
        """Write the stamps of a graph that has been traced."""
        with self._switch.own_work():
            for call in self.before_writing:
                call(graph)
        with self._switch.own_work():
            self._writer.write(graph, self._made_buffer)

    def write_later(self, site: Site, *values: tf.Operation | tf.Tensor) -> None:
        """Write a span of these stamps and numbers with the other spans of its graph, once the trace is complete."""
        self._writer.write_later(site, *values)

    def input(self, call: Callable[[], Any]) -> Any:
        """Record `call`, which asks for a batch."""
        if not self._can_stamp():
            if (run := self.current_run) is not None:
                run.asks = True
            return call()
        begun: _Begun | None = None
        with self._switch.own_work():
            buffer = self._made_buffer()
            site = self._sites.traced(Kind.INPUT, looped=is_looped(tf.compat.v1.get_default_graph()))
            begun = _Begun(buffer, site, buffer.stamp([]))
        result = call()
        if begun is not None:
            with self._switch.own_work():
                return self._end_input(begun, result)
        return result

    def reduction(self, call: Callable[[], Any], handed: Any, distribution: Distribution, gathers: bool) -> Any:
        """Record `call`, which reduces or `gathers` the tensors in `handed`."""
        if not self._can_stamp():
            return call()
        begun: _Begun | None = None
        with self._switch.own_work():
            begun = self._begin_reduction(handed, distribution, gathers)
        before = len(tf.compat.v1.get_default_graph().get_operations())
        result = call()
        if begun is not None:
            with self._switch.own_work():
                added = tf.compat.v1.get_default_graph().get_operations()[before:]
                self._end_reduction(begun, handed, result, collectives(added))
        return result

    def run(self, call: Callable[[], Any], run: TracedRun, place: RunPlace) -> Any:
        """Record `call`, a step or a part of one at this place of the program."""
        if not self._can_stamp():
            return call()
        graph = tf.compat.v1.get_default_graph()
        with self._switch.own_work():
            # Where the graph asks for the batch itself, the run begins with that.
            run.begun = [] if self._writer.has_input(graph) else [self._made_buffer().stamp([])]
        before = len(graph.get_operations())
        self._runs[id(graph)] = run
        try:
            result = call()
        finally:
            del self._runs[id(graph)]
        with self._switch.own_work():
            if run.trains or place.is_optimizer:
                made = graph.get_operations()
                key = place.key, len(made), tuple(run.variables)
                added = None if place.is_optimizer else [op.name for op in made[before:]]
                is_one = run.updates == run.micro_batches == 1
                if place.is_optimizer:
                    # Applied once more, as in a loop that is unrolled: each time is a step.
                    applied = self._optimizers.setdefault(graph, set())
                    is_one &= place.key not in applied
                    applied.add(place.key)
                self.step_graph = StepGraph(key, graph, added) if is_one else None
            if place.whole:
                run = self._whole.as_traced(place.key, run)
                if not run.unsplit:
                    if run.trains:
                        self.gradient(result)
                    return result
            site = self._sites.traced(
                Kind.RUN,
                looped=is_looped(graph),
                standalone_optimizer=place.is_optimizer,
                distribution=place.distribution,
            )
            self._end_run(site, graph, run, result, graph.get_operations()[before:])
        return result

    def gradient(self, gradients: Any, sources: Any = None) -> None:
        """Record that the graph computes the gradients of `sources`."""
        run = self.current_run
        if run is not None:
            run.trains = True
            run.unsplit |= self.leaves_stamps_out or self._is_in_xla()
            run.loop = run.loop or self.loop_around
            run.gradients[len(run.gradients)] = dense_tensors(gradients)
            run.variables += [] if sources is None else [with_gradients(sources, gradients)]
        elif self._can_stamp():
            stamp = self._made_buffer().stamp(dense_tensors(gradients))
            self._writer.write_later(self._sites.traced(Kind.GRADIENT, looped=is_looped(stamp.graph)), stamp)

    def _end_input(self, begun: _Begun, result: Any) -> Any:
        """Stamp the end of the input, and return the batch so that its use waits for this stamp."""
        made = _made_in(begun.stamp.graph, result)
        end = begun.buffer.stamp(made, carrier=next(iter(made), None))
        begun.site.examples, more = count_examples(result)
        self._writer.write_later(begun.site, begun.stamp, end, *more)
        return after(end, result, whole=begun.buffer.delays_whole_batch(made))

    def _begin_reduction(self, handed: Any, distribution: Distribution, gathers: bool) -> _Begun:
        buffer, looped = self._made_buffer(), is_looped(tf.compat.v1.get_default_graph())
        traits = reduction_traits(handed, distribution, gathers=gathers, in_run=self.current_run is not None)
        site = self._sites.traced(Kind.REDUCE, looped=looped, **traits)
        ready = [*dense_tensors(handed), *self._stamp_replicas(buffer, site, handed)]
        return _Begun(buffer, site, buffer.stamp(ready, enters=site.collective))

    def _end_reduction(self, begun: _Begun, handed: Any, result: Any, exchanges: list[tf.Operation]) -> None:
        buffer, site, begin = begun
        made, run = _made_in(begin.graph, result), self.current_run
        # A check that came after the end of its step would be told of the next one.
        checks = self.gradient_checks.check(buffer, site, handed, run)
        end = buffer.stamp([*(exchanges or made), begin, *checks]) if site.collective else begin
        if run is not None:
            run.reductions.append(Reduction(site, dense_tensors(result), end))
        replica = replica_tensors(handed)[0]
        # Variables that are handed over are read inside the reduction, so it is unknown when they were ready. Between
        # hosts it was the end of the collective before.
        ready = begin if replica or not site.local else end
        self._writer.write_later(site, *([ready, end, *other_bytes(replica)] if site.collective else [begin]))

    def _stamp_gradients(self, site: Site, graph: Any, run: TracedRun) -> None:
        """Stamp the gradients of each of several replicas in a micro-batch without a reduction."""
        gradients = [_made_in(graph, tensors) for tensors in run.gradients.values()]
        if len(gradients) == site.distribution.local_replicas > 1 and all(gradients):
            self._write_ready(self._made_buffer(), site, gradients)

    def _stamp_replicas(self, buffer: RowBuffer, site: Site, handed: Any) -> list[tf.Operation]:
        """Return a stamp of each of several replicas that hand tensors to a reduction inside a run."""
        replicas = replica_tensors(handed) if site.in_run else []
        return self._write_ready(buffer, site, replicas) if len(replicas) > 1 and all(replicas) else []

    def _write_ready(self, buffer: RowBuffer, site: Site, replicas: list[list[tf.Tensor]]) -> list[tf.Operation]:
        stamps = [buffer.stamp(tensors) for tensors in replicas]
        for index, ready in enumerate(stamps):
            self._writer.write_later(self._sites.traced(Kind.READY, replica=index, reduction=site), ready)
        return stamps

    def _end_run(self, site: Site, graph: Any, run: TracedRun, result: Any, added: list[tf.Operation]) -> None:
        site.trains, site.unsplit, site.counter = run.trains, run.unsplit, run.counter
        site.begins = bool(run.begun)
        site.applies, site.updates, site.micro_batches = run.applies, run.updates, run.micro_batches
        largest = max((reduction.site for reduction in run.reductions), key=lambda site: site.bytes, default=None)
        site.wire_type = largest.wire_type if largest else ""
        here = [reduction for reduction in run.reductions if reduction.stamp.graph is graph]
        self._unresolved.add([reduction for reduction in run.reductions if reduction.stamp.graph is not graph])
        if not run.reductions:
            self._stamp_gradients(site, graph, run)
        waited_for = reduced_updates(here, added) or _made_in(graph, result)
        # A run ends after the stamps of its reductions, too: on a busy machine they may come late.
        awaited = [reduction for reduction in here if not reduction.site.overlaps_updates] or here
        end = self._made_buffer().stamp([*waited_for, *(reduction.stamp for reduction in awaited)])
        self._writer.write_later(site, *run.begun, end)

    def _is_in_xla(self) -> bool:
        return self.stamps_graphs and bool(is_in_xla(tf.compat.v1.get_default_graph()))

    def _can_stamp(self) -> bool:
        if not self.stamps_graphs or self.leaves_stamps_out:
            return False
        if getattr(dtensor, "_dtensor_singleton", None) is not None:
            self.dtensor_seen = True
            self._on_dtensor()
            return False
        if self._is_in_xla():
            self._whole.are_seen = True
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


def _made_in(graph: Any, result: Any) -> list[tf.Tensor]:
    """Return the tensors of a result that lie in this graph."""
    return [tensor for tensor in dense_tensors(result) if tensor.graph is graph]
