"""Floating-point operations of a traced step, by the counts that TensorFlow registers for its ops.

They are those of `tf.compat.v1.profiler` (`float_operation`), which itself counts none of a graph whose batch has an
open size, nor any inside of a function.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Collection, Hashable, Iterator
from math import prod
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.trainer.tf_internals import deprecation, ops

THREAD = "tfscale-flops"
_BRANCHES = ("then_branch", "else_branch", "branches", "cond")
"""Attributes with functions that may not run, or run for no step's sake: they count nothing."""
_SHAPED = ("Placeholder", "ReadVariableOp", "IteratorGetNext", "OptionalGetValue")
"""Ops whose shapes are not inferred from their inputs; those of a variable lie in its resource, which is not copied."""


class StepFlops(NamedTuple):
    """Floating-point operations of one step of one task."""

    counted: int
    """Multiplications and additions that TensorFlow counts: at least so many are made."""
    uncounted: tuple[str, ...]
    """Types of ops whose work is not counted, though they multiply matrices or may, in the order of their names."""


class StepGraph:
    """Part of a graph that one step runs; it keeps no graph alive."""

    def __init__(self, key: Hashable, graph: Any, names: Collection[str] | None = None) -> None:
        """Keep the names of the ops that belong to the step; without names all do. `key` is equal for a retrace."""
        self.key = key
        self._graph = weakref.ref(graph)
        self._names = None if names is None else frozenset(names)

    def flops(self, batch: int) -> StepFlops | None:
        """Count with `batch` examples of a replica where a size is open; None once the graph is gone.

        None, too, without a product or a convolution: such a graph only applies gradients that another one computes.
        Takes a fraction of a millisecond for each op, in Python.
        """
        graph = self._graph()
        if graph is None:
            return None
        counted, multiplying, uncounted = 0, set[str](), set[str]()
        # TensorFlow's counts call a function that it has deprecated.
        with deprecation.silence():
            for kind, flops in _counts(graph, batch, self._names):
                counted += flops or 0
                multiplying |= {kind} if _multiplies(kind) else set()
                uncounted |= {kind} if flops is None else set()
        return StepFlops(counted, tuple(sorted(uncounted))) if counted and multiplying else None


class FlopsReader:
    """Reader of the newest step's operations, which counts them in a thread of its own, once for each graph.

    Python waits for the thread in the end: one that it left inside of TensorFlow would abort the process.
    """

    def __init__(self) -> None:
        self._asked: tuple[StepGraph, int] | None = None
        self._known: tuple[Hashable, StepFlops] | None = None
        """Key of a graph, and the most that one of this key has: the last batch of an epoch may be a small one."""
        self._thread: threading.Thread | None = None

    def read(self, graph: StepGraph | None, batch: int) -> StepFlops | None:
        """Return the operations of a step of this graph, None until they are counted; waits for nothing."""
        if graph is None:
            return None
        is_new = self._asked is None or self._asked[0] is not graph or batch > self._asked[1]
        is_free = self._thread is None or not self._thread.is_alive()
        if is_new and batch and is_free and threading.main_thread().is_alive():
            self._asked = graph, batch
            self._thread = threading.Thread(target=self._count, args=(graph, batch), name=THREAD, daemon=False)
            with contextlib.suppress(RuntimeError):  # Python ends, and starts no more threads
                self._thread.start()
        return self._known[1] if self._known is not None and self._known[0] == graph.key else None

    def _count(self, graph: StepGraph, batch: int) -> None:
        # A graph that TensorFlow cannot import anew has no number; the training goes on.
        with contextlib.suppress(Exception):
            found, known = graph.flops(batch), self._known
            if found is not None and not (known and known[0] == graph.key and known[1].counted > found.counted):
                self._known = graph.key, found


def _counts(graph: Any, batch: int, names: Collection[str] | None = None) -> Iterator[tuple[str, int | None]]:
    """Yield the type of each op and its operations, None where it multiplies and they are not known."""
    sized = _sized(graph, batch)
    for op in sized.get_operations():
        if not threading.main_thread().is_alive():
            raise InterruptedError("Python waits for this thread, to end")
        if names is not None and op.name not in names:
            continue
        functions = [(name, value.func.name) for name, value in op.node_def.attr.items() if value.func.name]
        if functions:
            for name, function in functions:
                inner = graph._get_function(function) if name not in _BRANCHES else None
                if inner is not None:
                    yield from _counts(inner.graph, batch)
        elif op.type == "Einsum":
            yield op.type, _einsum(op)
        else:
            yield op.type, _registered(sized, op)


def _registered(graph: Any, op: tf.Operation) -> int | None:
    try:
        flops = ops.get_stats_for_node_def(graph, op.node_def, "flops").value
    except Exception:  # each count raises what it likes of a size that is open
        flops = None
    return None if flops is None and _multiplies(op.type) else int(flops or 0)


def _einsum(op: tf.Operation) -> int | None:
    """Return two operations for each combination of indices, as of a product of matrices; None where one is open."""
    terms = op.get_attr("equation").decode().partition("->")[0].split(",")
    if len(terms) != len(op.inputs) or any("." in term for term in terms):
        return None
    sizes = dict[str, int]()
    for term, tensor in zip(terms, op.inputs, strict=True):
        if tensor.shape.rank != len(term) or not tensor.shape.is_fully_defined():
            return None
        sizes |= dict(zip(term, tensor.shape, strict=True))
    return len(op.inputs) * prod(sizes.values())


def _multiplies(kind: str) -> bool:
    return any(word in kind for word in ("MatMul", "Conv", "RNN", "Einsum", "Attention", "LSTM", "GRU"))


def _sized(graph: Any, batch: int) -> tf.Graph:
    """Return a copy of the graph in which TensorFlow has inferred all shapes from the size of the batch."""
    definition = graph.as_graph_def()
    for node in definition.node:
        if node.op in _SHAPED or any(value.func.name for value in node.attr.values()):
            if node.op == "Placeholder":
                del node.attr["shape"]
            made = [_with_batch(tensor.shape, batch) for tensor in graph.get_operation_by_name(node.name).outputs]
            node.attr["_output_shapes"].list.shape.extend(shape.as_proto() for shape in made)
    copy = tf.Graph()
    with copy.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    return copy


def _with_batch(shape: tf.TensorShape, batch: int) -> tf.TensorShape:
    if not shape.rank or shape[0] is not None:
        return shape
    return tf.TensorShape([batch, *shape[1:]])
