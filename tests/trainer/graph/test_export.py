"""Stamps in an exported model."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def test_what_is_exported_of_a_stamp_that_takes_a_tensor_does_nothing(ring: Any) -> None:
    import tensorflow as tf
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
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

    exported = MetaGraphDef()
    exported.graph_def.library.function.append(step.get_concrete_function(tf.ones(3)).function_def)
    write_nothing(exported)
    operations = function_def_to_graph(exported.graph_def.library.function[0]).get_operations()
    assert not any(op.type.startswith("Tfscale") for op in operations)
    (product,) = (op for op in operations if op.type == "Mul")
    held = product.inputs[1].op
    assert held.type == "Identity" and [each.type for each in held.control_inputs] == ["NoOp"]
