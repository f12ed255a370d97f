"""What can be read off the structures and graphs of a TensorFlow program while it is traced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import values
from tensorflow.python.framework import auto_control_deps_utils, ops
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph


def dense_tensors(value: Any) -> list[tf.Tensor]:
    """The tensors in any structure of tensors, composites and distributed values, on this process's replicas."""
    found: list[tf.Tensor] = []
    for leaf in tf.nest.flatten(value, expand_composites=True):
        if isinstance(leaf, values.DistributedValues):
            found += dense_tensors(list(leaf.values))
        elif isinstance(leaf, tf.Tensor):
            found.append(leaf)
    return found


def replica_bytes(handed: Any) -> int:
    """Bytes that one replica hands to a reduction: elements x dtype; tensors of unknown shape count 0."""
    leaves = tf.nest.flatten(handed)
    firsts = [leaf.values[0] if isinstance(leaf, values.DistributedValues) else leaf for leaf in leaves]
    return sum((tensor.shape.num_elements() or 0) * tensor.dtype.size for tensor in dense_tensors(firsts))


def count_examples(batch: Any) -> tf.Tensor | float:
    """Examples in this worker's part of a batch: the first dimension of its first component, over local replicas.

    0 where that cannot be said, for an Optional for example.
    """
    components = [] if isinstance(batch, tf.experimental.Optional) else tf.nest.flatten(batch)
    if not components:
        return 0.0
    first = components[0]
    replicas = first.values if isinstance(first, values.DistributedValues) else [first]
    tensors = [tensor for replica in replicas for tensor in dense_tensors(replica)[:1] if tensor.shape.rank != 0]
    if not tensors:
        return 0.0
    with ops.control_dependencies(None):
        return tf.add_n([tf.cast(tf.shape(tensor)[0], tf.float64) for tensor in tensors])


def variable_updates(added: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Those of `added` that change a variable: assignments, optimizer kernels, calls of functions with either."""
    return [op for op in added if not op.type.startswith("Collective") and _written_resources(op)]


def _written_resources(op: tf.Operation) -> bool:
    if op.op_def is None or not op.op_def.is_stateful or op.type in auto_control_deps_utils.RESOURCE_READ_OPS:
        return False
    return any(tensor.dtype == tf.resource for tensor in op.inputs)


def descendants(found: Iterable[tf.Operation]) -> set[tf.Operation]:
    """All ops of the same graph that use what these give, directly or not, themselves included."""
    seen: set[tf.Operation] = set()
    todo = list(found)
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [consumer for tensor in op.outputs for consumer in tensor.consumers()]
    return seen


def is_looped(graph: Any) -> bool:
    """Whether a graph lies inside the body of a loop, directly or through calls and conditions."""
    while graph is not None:
        if isinstance(graph, WhileBodyFuncGraph):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
