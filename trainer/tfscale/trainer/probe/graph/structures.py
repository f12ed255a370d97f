"""Facts about the structures and graphs of a TensorFlow program while it is traced."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import tensorflow as tf
from tfscale.trainer.tf_internals import RESOURCE_READ_OPS, DistributedValues, WhileBodyFuncGraph


def dense_tensors(value: Any) -> list[tf.Tensor]:
    """Return the tensors of this process in a structure of tensors, composites and distributed values."""
    tensors: list[tf.Tensor] = []
    for leaf in tf.nest.flatten(value, expand_composites=True):
        if isinstance(leaf, DistributedValues):
            tensors += dense_tensors(list(leaf.values))
        elif isinstance(leaf, tf.Tensor):
            tensors.append(leaf)
    return tensors


def after(stamp: tf.Operation, batch: Any, whole: bool) -> Any:
    """Return the batch such that its use waits for the stamp.

    All components depend on it if `whole` and of a single replica, otherwise the first component of each replica.
    """
    first = next(iter(tf.nest.flatten(batch)), None)
    replicas = len(first.values) if isinstance(first, DistributedValues) else 1
    leaves = tf.nest.flatten(batch, expand_composites=True)
    with tf.control_dependencies([stamp]):
        # By an op of its own: a consumer that waited for the stamp itself would not be fused with other ops.
        if whole and replicas == 1 < len(leaves) and all(_is_in(stamp.graph, leaf) for leaf in leaves):
            leaves = tf.identity_n(leaves)
        else:
            leaves[:replicas] = [tf.identity(leaf) if _is_in(stamp.graph, leaf) else leaf for leaf in leaves[:replicas]]
    return tf.nest.pack_sequence_as(batch, leaves, expand_composites=True)


def _is_in(graph: Any, leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) and leaf.graph is graph


def replica_tensors(handed: Any) -> list[list[tf.Tensor]]:
    """Return the tensors that each local replica hands to a reduction."""
    leaves = tf.nest.flatten(handed)
    width = max((len(leaf.values) for leaf in leaves if isinstance(leaf, DistributedValues)), default=1)
    return [dense_tensors([_of_replica(leaf, index) for leaf in leaves]) for index in range(width)]


def _of_replica(leaf: Any, index: int) -> Any:
    value = leaf.values[index] if isinstance(leaf, DistributedValues) else leaf
    # The dense shape of sparse gradients is not sent.
    return [value.values, value.indices] if isinstance(value, tf.IndexedSlices) else value


def replica_gradients(handed: Any) -> list[list[tf.Tensor | None]]:
    """Return by local replica its gradients for a reduction; of a sparse gradient its rows."""
    leaves = tf.nest.flatten(handed)
    width = len(replica_tensors(handed))
    return [[_gradient(_of_replica(leaf, index)) for leaf in leaves] for index in range(width)]


def _gradient(value: Any) -> tf.Tensor | None:
    value = value[0] if isinstance(value, list) else value
    return value if isinstance(value, tf.Tensor) else None


def fixed_bytes(tensors: Iterable[tf.Tensor]) -> int:
    """Return the bytes (elements x dtype) of the tensors whose shape is known before the run."""
    return sum((tensor.shape.num_elements() or 0) * tensor.dtype.size for tensor in tensors)


def sparse_gradients(handed: Any) -> list[tf.IndexedSlices]:
    """Return the sparse gradients that the first local replica hands to a reduction: their rows are gathered."""
    leaves = tf.nest.flatten(handed)
    values = [leaf.values[0] if isinstance(leaf, DistributedValues) else leaf for leaf in leaves]
    return [value for value in values if isinstance(value, tf.IndexedSlices)]


def dense_bytes(gradients: Iterable[tf.IndexedSlices]) -> int:
    """Return the bytes of these gradients as dense tensors, as far as their shapes are fixed."""
    return sum((gradient.shape.num_elements() or 0) * gradient.dtype.size for gradient in gradients)


def wire_type(tensors: Iterable[tf.Tensor]) -> str:
    """Return the type of most bytes of these tensors; empty without any."""
    by_type: dict[str, int] = {}
    for tensor in tensors:
        by_type[tensor.dtype.name] = by_type.get(tensor.dtype.name, 0) + fixed_bytes([tensor])
    return max(by_type, key=lambda name: by_type[name], default="")


def other_bytes(tensors: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Return the bytes of the tensors whose shapes only the run knows: one float64 scalar, or none."""
    others = [tensor for tensor in tensors if not tensor.shape.is_fully_defined()]
    with tf.control_dependencies(None):
        sizes = [tf.cast(tf.size(tensor), tf.float64) * tensor.dtype.size for tensor in others]
        return [tf.add_n(sizes)] if sizes else []


def count_examples(batch: Any) -> tuple[int, list[tf.Tensor]]:
    """Return the examples in this worker's part of a batch: the first dimension of its first component, over replicas.

    Returns their number as far as it is fixed (0 if it is unknown), and the rest as one float64 scalar, or none.
    """
    if isinstance(batch, tf.experimental.Optional):
        return _fixed_examples(next(iter(tf.nest.flatten(batch.element_spec)), None)), []
    tensors = _examples_of(batch)
    fixed = sum(map(_fixed_examples, tensors))
    with tf.control_dependencies(None):
        open_ = [tensor for tensor in tensors if not tensor.shape.rank or tensor.shape[0] is None]
        sizes = [tf.cast(tf.shape(tensor)[0], tf.float64) for tensor in open_]
        return fixed, [tf.add_n(sizes)] if sizes else []


def _fixed_examples(spec: Any) -> int:
    shape = getattr(spec, "shape", tf.TensorShape(None))
    return shape[0] or 0 if shape.rank else 0


def eager_examples(batch: Any) -> float:
    """Return the examples in an eager batch; costs a microsecond."""
    return float(sum(tensor.shape[0] for tensor in _examples_of(batch)))


def _examples_of(batch: Any) -> list[tf.Tensor]:
    while isinstance(batch, list | tuple | Mapping) and batch:
        batch = next(iter(batch.values() if isinstance(batch, Mapping) else batch))
    if isinstance(batch, tf.experimental.Optional):
        return []
    replicas = batch.values if isinstance(batch, DistributedValues) else [batch]
    tensors = [
        replica if isinstance(replica, tf.Tensor) else next(iter(dense_tensors(replica)), None) for replica in replicas
    ]
    return [tensor for tensor in tensors if tensor is not None and tensor.shape.rank != 0]


def variable_updates(added: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Return the ops that change a variable: assignments, optimizer kernels, and calls of functions with either."""
    return [op for op in added if not op.type.startswith("Collective") and _written_resources(op)]


def _written_resources(op: tf.Operation) -> bool:
    if op.op_def is None or not op.op_def.is_stateful or op.type in RESOURCE_READ_OPS:
        return False
    return any(tensor.dtype == tf.resource for tensor in op.inputs)


def descendants(ops: Iterable[tf.Operation]) -> set[tf.Operation]:
    """Return these ops and all ops of the same graph that use their outputs, directly or not."""
    seen: set[tf.Operation] = set()
    todo = list(ops)
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [consumer for tensor in op.outputs for consumer in tensor.consumers()]
    return seen


def ops_in(graph: Any, tensors: Iterable[tf.Tensor]) -> set[tf.Operation]:
    """Return the ops of a graph that make these tensors. A tensor of a graph around it is a captured input there."""
    captured = {id(outside): inside for outside, inside in getattr(graph, "captures", ())}
    found = [tensor if tensor.graph is graph else captured.get(id(tensor)) for tensor in tensors]
    return {tensor.op for tensor in found if tensor is not None}


def updates_fed_by(results: set[tf.Operation]) -> bool:
    """Return whether a variable is updated from these results, in their own graph."""
    if not results:
        return False
    graph = next(iter(results)).graph
    return not descendants(results).isdisjoint(variable_updates(graph.get_operations()))


def loop_inside(graph: Any, outermost: Container[int]) -> Any:
    """Return the body of the innermost loop around a graph, searched up to a graph in `outermost` (ids); else None."""
    while graph is not None and id(graph) not in outermost:
        if isinstance(graph, WhileBodyFuncGraph):
            return graph
        graph = getattr(graph, "outer_graph", None)
    return None


def iterations(body: Any) -> int:
    """Return the most iterations of a loop's body; 1 where its graph does not say."""
    # A graph does not keep the one around it: that of a function which is called once may be gone.
    around = body.outer_graph
    for op in around.get_operations() if around is not None else ():
        if op.type in ("While", "StatelessWhile") and op.get_attr("body").name == body.name:
            # Its inputs begin with its own counter and the most iterations, -1 where there is no bound.
            most = tf.get_static_value(op.inputs[1])
            return max(1, int(most)) if most is not None and most.ndim == 0 else 1
    return 1


def is_looped(graph: Any) -> bool:
    """Return whether a graph lies inside the body of a loop, directly or through calls and conditions."""
    while graph is not None:
        if isinstance(graph, WhileBodyFuncGraph):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
