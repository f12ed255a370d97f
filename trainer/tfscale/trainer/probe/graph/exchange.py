"""Tensors that a function on a worker fetches from parameter servers or sends to them, read from the function's graph.

An op that uses a variable runs on the server that holds it, and so do ops that are colocated with it; all others run on
the worker. A tensor travels once to each place where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tfscale.trainer.probe.graph.structures import fixed_bytes, variable_updates
from tfscale.trainer.probe.rows.awaited_ops import is_symbolic
from tfscale.trainer.tf_internals import RESOURCE_READ_OPS

WORKER = "worker"
"""Place of all ops that run on no server."""

_CALLS = frozenset(
    {
        "PartitionedCall",
        "StatefulPartitionedCall",
        "If",
        "StatelessIf",
        "While",
        "StatelessWhile",
        "Case",
        "StatelessCase",
    }
)
"""Ops that call a function: the ops of its body have their own places, in their own graph."""


@dataclass
class Exchange:
    """Tensors that travel, by server."""

    pulled: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    pushed: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    first: list[tuple[tf.Tensor, tf.Operation]] = field(default_factory=list)
    """Fetched variables that the graph has not changed before, each with an op that uses it."""

    def __bool__(self) -> bool:
        return bool(self.pulled or self.pushed)


def exchange_of(graph: Any) -> Exchange:
    """Return the exchange of all ops of a graph so far."""
    exchange = Exchange()
    places = _Places()
    operations: Sequence[tf.Operation] = graph.get_operations()
    late = _after_updates(operations)
    for tensor, users in _uses(operations, places):
        source = places.of(tensor.op)
        for destination, user in users.items():
            if destination == WORKER != source:
                exchange.pulled.setdefault(source, []).append(tensor)
                exchange.first += [(tensor, user)] if tensor.op not in late else []
            elif source == WORKER != destination and tensor.op.type != "Const":
                exchange.pushed.setdefault(destination, []).append(tensor)
    return exchange


def sizes(tensors: dict[str, list[tf.Tensor]]) -> dict[str, int]:
    """Return the bytes by server, as far as the shapes are fixed."""
    return {server: fixed_bytes(moved) for server, moved in tensors.items()}


class _Places:
    """Places where ops run: `ps:1`, or the worker."""

    def __init__(self) -> None:
        self._handles: dict[int, str] = {}

    def of(self, op: tf.Operation) -> str:
        if op.type in _CALLS:
            return WORKER
        for tensor in op.inputs:
            if tensor.dtype == tf.resource:
                return self._of_handle(tensor)
        return server_of(op.device) or WORKER

    def _of_handle(self, handle: tf.Tensor) -> str:
        place = self._handles.get(id(handle))
        if place is None:
            place = self._handles[id(handle)] = server_of(_origin(handle).device) or WORKER
        return place


def _origin(handle: Any) -> Any:
    """Return the eager tensor that the graph has captured as this handle."""
    while is_symbolic(handle):
        captures = getattr(handle.graph, "captures", ())
        outer = next((outside for outside, inside in captures if inside is handle), None)
        if outer is None:
            return handle
        handle = outer
    return handle


def server_of(device: str) -> str | None:
    """Return `ps:1` for `/job:ps/task:1/device:CPU:0`, None for a device that is no server's."""
    spec = tf.DeviceSpec.from_string(device)
    return f"ps:{spec.task or 0}" if spec.job == "ps" else None


def _uses(operations: Iterable[tf.Operation], places: _Places) -> list[tuple[tf.Tensor, dict[str, tf.Operation]]]:
    """Return every tensor with the first op that uses it, by place."""
    used: dict[int, tuple[tf.Tensor, dict[str, tf.Operation]]] = {}
    for op in operations:
        place = places.of(op)
        for tensor in op.inputs:
            if tensor.dtype != tf.resource:
                used.setdefault(id(tensor), (tensor, {}))[1].setdefault(place, op)
    return list(used.values())


def _after_updates(operations: Sequence[tf.Operation]) -> set[tf.Operation]:
    """Return the reads that wait because this graph has changed their variable earlier."""
    changed: set[int] = set()
    late: set[tf.Operation] = set()
    updates = set(variable_updates(operations))
    for op in operations:
        handles = {id(tensor) for tensor in op.inputs if tensor.dtype == tf.resource}
        if op.type in RESOURCE_READ_OPS and handles & changed:
            late.add(op)
        elif op in updates:
            changed |= handles
    return late


def arrived(fetched: Iterable[tuple[tf.Tensor, tf.Operation]]) -> list[tf.Operation]:
    """Return the worker's ops that are done when the fetched tensors have arrived.

    Each is placed with an op that uses the tensor, so that the tensor does not travel a second time.
    """
    there = []
    for tensor, user in fetched:
        with tf.control_dependencies(None), tf.device(None), tf.device(user.device):
            there.append(tf.identity(tensor).op)
    return there
