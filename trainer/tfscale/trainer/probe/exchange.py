"""What a function that runs on a worker fetches from the parameter servers, and sends them, read off its graph.

An op that uses a variable runs on the server that holds it, and so does whatever is colocated with it; all else runs on
the worker. A tensor travels once to each place where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils, ops
from tensorflow.python.framework.device_spec import DeviceSpecV2 as DeviceSpec
from tfscale.trainer.probe.graph import fixed_bytes, variable_updates

WORKER = "worker"
"""Where everything is done that is done on no server."""

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
"""Whose body's ops have places of their own, in a graph of their own."""


@dataclass
class Exchange:
    """The tensors that travel, by server."""

    pulled: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    pushed: dict[str, list[tf.Tensor]] = field(default_factory=dict)
    first: list[tuple[tf.Tensor, tf.Operation]] = field(default_factory=list)
    """What the worker fetches of variables that this graph has not changed before, each with an op that uses it."""

    def __bool__(self) -> bool:
        return bool(self.pulled or self.pushed)


def exchange_of(graph: Any) -> Exchange:
    """Of all ops of a graph so far."""
    found = Exchange()
    places = _Places()
    operations: Sequence[tf.Operation] = graph.get_operations()
    late = _after_updates(operations)
    for tensor, users in _uses(operations, places):
        source = places.of(tensor.op)
        for destination, user in users.items():
            if destination == WORKER != source:
                found.pulled.setdefault(source, []).append(tensor)
                found.first += [(tensor, user)] if tensor.op not in late else []
            elif source == WORKER != destination and tensor.op.type != "Const":
                found.pushed.setdefault(destination, []).append(tensor)
    return found


def sizes(tensors: dict[str, list[tf.Tensor]]) -> dict[str, int]:
    """Bytes by server, as far as the shapes are fixed."""
    return {server: fixed_bytes(found) for server, found in tensors.items()}


class _Places:
    """Where ops run: `ps:1`, or the worker."""

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
    """The tensor outside of all graphs that a graph got as this one."""
    while not isinstance(handle, ops.EagerTensor):
        captures = getattr(handle.graph, "captures", ())
        outer = next((outside for outside, inside in captures if inside is handle), None)
        if outer is None:
            return handle
        handle = outer
    return handle


def server_of(device: str) -> str | None:
    """`ps:1` for `/job:ps/task:1/device:CPU:0`, None for the device of no server."""
    spec = DeviceSpec.from_string(device)
    return f"ps:{spec.task or 0}" if spec.job == "ps" else None


def _uses(operations: Iterable[tf.Operation], places: _Places) -> list[tuple[tf.Tensor, dict[str, tf.Operation]]]:
    """Every tensor, and by place the first op that uses it there."""
    used: dict[int, tuple[tf.Tensor, dict[str, tf.Operation]]] = {}
    for op in operations:
        place = places.of(op)
        for tensor in op.inputs:
            if tensor.dtype != tf.resource:
                used.setdefault(id(tensor), (tensor, {}))[1].setdefault(place, op)
    return list(used.values())


def _after_updates(operations: Sequence[tf.Operation]) -> set[tf.Operation]:
    """Reads of a variable that has been changed in this graph before: they wait for that."""
    changed: set[int] = set()
    late: set[tf.Operation] = set()
    updates = set(variable_updates(operations))
    for op in operations:
        handles = {id(tensor) for tensor in op.inputs if tensor.dtype == tf.resource}
        if op.type in auto_control_deps_utils.RESOURCE_READ_OPS and handles & changed:
            late.add(op)
        elif op in updates:
            changed |= handles
    return late


def arrived(fetched: Iterable[tuple[tf.Tensor, tf.Operation]]) -> list[tf.Operation]:
    """Ops of the worker that are done when these are there: each beside one that uses the tensor, so that it travels no
    second time."""
    there = []
    for tensor, user in fetched:
        with ops.control_dependencies(None), ops.device(None), ops.device(user.device):
            there.append(tf.identity(tensor).op)
    return there
