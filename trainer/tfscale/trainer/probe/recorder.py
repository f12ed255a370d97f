"""Records spans around calls: by stamps in the graph being traced, or by the clock where Python runs eagerly."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util
from tfscale.trainer.probe.graph import (
    count_examples,
    dense_tensors,
    descendants,
    is_looped,
    replica_bytes,
    variable_updates,
)
from tfscale.trainer.probe.ring import Ring, is_own
from tfscale.trainer.probe.spans import Kind, Site, Sites, Span

Call = Callable[[], Any]


class _Reduction(NamedTuple):
    site: Site
    results: set[tf.Operation]
    stamp: tf.Tensor


class _Surroundings(threading.local):
    """What the current thread is inside of."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self.reductions: list[_Reduction] = []
        """Of the run being traced."""


class Recorder:
    """What has been recorded, and how. A failure of its own goes to `on_failure`; TensorFlow's errors pass through."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self.sites = Sites()
        self.ring: Ring | None = None
        self.eager: deque[Span] = deque(maxlen=100_000)
        self.eager_entered = 0
        self.xla_seen = False
        self._on_failure = on_failure
        self._around = _Surroundings()
        self._lock = threading.Lock()
        self._enabled = True

    def disable(self) -> None:
        """Let everything pass from now on; stamps in graphs already traced stay there."""
        self._enabled = False

    def record(self, kind: Kind, call: Call, handed: Any = None) -> Any:
        """Do `call` between two stamps; a call of the same kind inside it belongs to it.

        `handed` is what a reduction gets; its span begins when that is ready.
        """
        if not self._enabled or kind in self._around.kinds:
            return call()
        self._around.kinds.add(kind)
        try:
            if tf.executing_eagerly():
                return self._record_eagerly(kind, call, handed)
            if not self._can_stamp(ops.get_default_graph()):
                return call()
            return self._record_in_graph(kind, call, handed)
        finally:
            self._around.kinds.discard(kind)

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """Whatever fails in here is the probe's own failure, and must not reach the program."""
        try:
            yield
        except Exception as error:
            self.disable()
            self._on_failure(error)

    @property
    def entered(self) -> int:
        """Reductions entered so far; readable while the main thread is blocked in one."""
        return self.eager_entered + (self.ring.entered() if self.ring else 0)

    def drain(self) -> tuple[list[Span], int]:
        """The spans since the last call, and how many were lost to an overrun."""
        eager = [self.eager.popleft() for _ in range(len(self.eager))]
        traced, lost = self.ring.read(self.sites) if self.ring else ([], 0)
        return eager + traced, lost

    @property
    def _in_run(self) -> bool:
        return Kind.RUN in self._around.kinds

    def _record_eagerly(self, kind: Kind, call: Call, handed: Any) -> Any:
        self.eager_entered += kind is Kind.REDUCE
        begin = time.time()
        result = call()
        end = time.time()
        with self.own_work():
            site = self.sites.eager(kind, replica_bytes(handed), in_run=kind is Kind.REDUCE and self._in_run)
            examples = count_examples(result) if kind is Kind.INPUT else 0.0
            self.eager.append(Span(site, begin, end, float(examples)))
        return result

    def _record_in_graph(self, kind: Kind, call: Call, handed: Any) -> Any:
        begun: tuple[Ring, tf.Tensor] | None = None
        with self.own_work():
            begun = self._begin(kind, handed)
        if begun is None:
            return call()
        graph = ops.get_default_graph()
        before = len(graph.get_operations())
        # The batch is asked for after its stamp; elsewhere nothing may wait for a stamp.
        with tf.control_dependencies([begun[1].op] if kind is Kind.INPUT else []):
            result = call()
        with self.own_work():
            self._end(kind, handed, *begun, result, graph.get_operations()[before:])
        return result

    def _begin(self, kind: Kind, handed: Any) -> tuple[Ring, tf.Tensor]:
        ring = self._made_ring()
        stamp = ring.stamp(dense_tensors(handed))
        if kind is Kind.REDUCE:
            ring.enter(stamp)
        if kind is Kind.RUN:
            self._around.reductions = []
        return ring, stamp

    def _end(
        self, kind: Kind, handed: Any, ring: Ring, begin: tf.Tensor, result: Any, added: list[tf.Operation]
    ) -> None:
        in_run = kind is Kind.REDUCE and self._in_run
        site = self.sites.traced(kind, replica_bytes(handed), in_run, is_looped(begin.graph))
        waited_for: list[Any] = [tensor for tensor in dense_tensors(result) if tensor.graph is begin.graph]
        results = {tensor.op for tensor in waited_for}
        if kind is Kind.RUN:
            # A run ends after the stamps of its reductions, too: on a busy machine they may come late.
            late = [reduction.stamp.op for reduction in self._around.reductions if reduction.stamp.graph is begin.graph]
            waited_for = (self._reduced_updates(added) or waited_for) + late
        end = ring.stamp(waited_for)
        if in_run:
            self._around.reductions.append(_Reduction(site, results, end))
        ring.write(site, begin, end, count_examples(result) if kind is Kind.INPUT else 0.0)

    def _reduced_updates(self, added: list[tf.Operation]) -> list[tf.Operation]:
        """Of a run's ops the updates made of reduced tensors; reductions that feed none go on beside them.

        Without reductions, all its updates.
        """
        updates = {op for op in variable_updates(added) if not is_own(op)}
        reduced: set[tf.Operation] = set()
        for reduction in self._around.reductions:
            fed = updates & descendants(reduction.results)
            reduction.site.beside = not fed
            reduced |= fed
        return list(reduced or updates)

    def _can_stamp(self, graph: Any) -> bool:
        if control_flow_util.GraphOrParentsInXlaContext(graph):
            self.xla_seen = True
            return False
        return graph.experimental_acd_manager is not None

    def _made_ring(self) -> Ring:
        with self._lock:
            if self.ring is None:
                self.ring = Ring()
            return self.ring
