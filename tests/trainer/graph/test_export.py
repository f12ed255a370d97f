"""Stamps in an exported model."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def test_what_is_exported_of_a_stamp_that_takes_a_tensor_does_nothing(ring: Any) -> None:
    import tensorflow as tf
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph
    from tfscale.trainer.probe.graph.export import write_nothing
    from tfscale.trainer.probe.graph.structures import after
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    buffer = RowBuffer([], ring)

    @tf.function
    def step(batch: Any) -> Any:
        stamp = buffer.stamp([batch], carrier=batch)
        buffer.write(4, [stamp])
        return 2.0 * after(stamp, batch, whole=True)

    exported = GraphDef()
    exported.library.function.append(step.get_concrete_function(tf.ones(3)).function_def)
    write_nothing(exported)
    operations = function_def_to_graph(exported.library.function[0]).get_operations()
    assert not any(op.type.startswith("Tfscale") for op in operations)
    (product,) = (op for op in operations if op.type == "Mul")
    held = product.inputs[1].op
    assert held.type == "Identity" and [each.type for each in held.control_inputs] == ["NoOp"]


def test_a_graph_that_is_read_can_be_loaded_beside_its_functions(ring: Any) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.export import without_stamps
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    buffer = RowBuffer([], ring)

    @tf.function
    def inner(batch: Any) -> Any:
        buffer.write(4, [buffer.stamp([batch])])
        return 2.0 * batch

    middle = tf.function(lambda batch: inner(batch) + 1.0)
    graph = tf.function(lambda batch: middle(batch)).get_concrete_function(tf.ones(3)).graph
    read = without_stamps(graph.as_graph_def())
    assert 'op: "Tfscale' not in str(read)
    (output,) = graph.outputs
    loaded = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(read, name=""), [])
    found = loaded.prune(graph.inputs[0].name, output.name)
    assert found(tf.ones(3)).numpy().tolist() == [3.0] * 3
