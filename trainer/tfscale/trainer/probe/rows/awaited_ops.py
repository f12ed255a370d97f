"""Ops that a stamp waits for, chosen such that the stamp keeps its meaning after TensorFlow has optimised the graph.

Grappler keeps values and effects, not nodes. Of `rate * (sum * (1/n))` it makes `sum * (rate/n)`: the node of `sum *
(1/n)` then is the constant `rate/n`, and an op that only waits for that node goes on at once. A call of a function
becomes the ops of the function, and an op that only waits for the call then waits only for the effects among these ops.
A stateful op stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_CONDITIONS = frozenset({"If", "Case", "While"})
_FOLDED = frozenset({"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "BiasAdd", "Conv2D", "Conv3D"})
"""Ops whose node grappler may give to a constant, or to another op, if one of their inputs is a constant."""
_KNOWN = frozenset({"Const", "Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs"})
"""Ops of which grappler makes constants: shapes are mostly known."""
_MOST_KNOWN = 64
"""Ops that are looked at to tell whether a tensor is a constant."""


def awaited(after: Iterable[tf.Tensor | tf.Operation]) -> list[tf.Tensor | tf.Operation]:
    """Return ops for a stamp to wait for, so that it is taken after all of `after`."""
    graph = tf.compat.v1.get_default_graph()
    waited_for: list[tf.Tensor | tf.Operation] = []
    seen: dict[int, tf.Tensor | tf.Operation] = {}
    todo = list(after)
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        is_made_here = is_symbolic(one) and one.graph is graph
        waited_for.append(_of_call(one) if is_made_here and one.op.type in _CALLS else one)
        todo += _unfolded(one.op) if is_made_here else []
    return waited_for


def is_symbolic(value: Any) -> bool:
    """Decide whether a value is the tensor of a graph, as `tf.is_symbolic_tensor` does from TensorFlow 2.13 on."""
    return isinstance(value, tf.Tensor) and not isinstance(value, tf.__internal__.EagerTensor)


def collectives(added: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Return the ops that exchange data, directly or in called functions, among ops added by a reduction."""
    return [op for op in added if op.type.startswith("Collective") or op.type in _CONDITIONS]


def _of_call(tensor: tf.Tensor) -> tf.Operation:
    """Return an op that is done when this output of a function is computed, and not only the function's effects."""
    with tf.control_dependencies(None), tf.device(None):
        return tf.identity(tensor).op


def _unfolded(op: tf.Operation) -> Sequence[tf.Tensor]:
    """Return the remaining inputs before an op whose node grappler replaces; none without any."""
    if op.type not in _FOLDED:
        return []
    unknown = [tensor for tensor in op.inputs if not _may_be_constant(tensor)]
    return unknown if len(unknown) < len(op.inputs) else []


def _may_be_constant(tensor: tf.Tensor) -> bool:
    """Decide whether grappler may know the value of a tensor before the run."""
    seen: set[tf.Operation] = set()
    todo = [tensor.op]
    while todo and len(seen) < _MOST_KNOWN:
        op = todo.pop()
        if op in seen or op.type in _KNOWN:
            continue
        if not op.inputs or op.op_def is None or op.op_def.is_stateful:
            return False
        seen.add(op)
        todo += [source.op for source in op.inputs]
    return not todo
