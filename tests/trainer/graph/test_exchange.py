"""Tensors that a function exchanges with parameter servers, read from its graph: no cluster is needed for that."""

from collections.abc import Callable
from typing import Any

import pytest


def traced(body: Callable[[Any, Any], None]) -> Any:
    """Return the exchange of a graph with 4 x 8 weights on server 0 and a scalar on server 1."""
    import tensorflow as tf
    from tensorflow.python.framework.func_graph import FuncGraph
    from tfscale.trainer.probe.graph.exchange import exchange_of

    graph = FuncGraph("function")
    with graph.as_default():
        with tf.device("/job:ps/task:0/device:CPU:0"):
            weights = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=(4, 8))
        with tf.device("/job:ps/task:1/device:CPU:0"):
            counter = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=())
        body(weights, counter)
    return exchange_of(graph)


def read(handle: Any, dtype: str = "float32") -> Any:
    import tensorflow as tf

    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


@pytest.mark.tensorflow
def test_each_tensor_travels_once_to_each_place() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.exchange import sizes

    def step(weights: Any, counter: Any) -> None:
        value = read(weights)
        gradient = tf.square(value) + tf.exp(value)
        tf.raw_ops.AssignSubVariableOp(resource=weights, value=gradient)
        tf.raw_ops.AssignAddVariableOp(resource=counter, value=tf.constant(1, tf.int64))

    found = traced(step)
    assert sizes(found.pulled) == {"ps:0": 4 * 8 * 4}
    # A constant is made where it is used.
    assert sizes(found.pushed) == {"ps:0": 4 * 8 * 4}
    ((tensor, user),) = found.first
    assert (tensor.op.type, user.type) == ("ReadVariableOp", "Square")


@pytest.mark.tensorflow
def test_what_servers_do_among_their_own_variables_does_not_travel() -> None:
    import tensorflow as tf

    def decay(weights: Any, _: Any) -> None:
        with tf.device("/job:ps/task:0/device:CPU:0"):
            tf.raw_ops.AssignVariableOp(resource=weights, value=read(weights) * 0.5)

    assert not traced(decay)


@pytest.mark.tensorflow
def test_a_variable_that_was_changed_before_is_not_what_the_step_waits_for() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.exchange import sizes

    def metric(_: Any, counter: Any) -> None:
        tf.raw_ops.AssignAddVariableOp(resource=counter, value=tf.constant(1, tf.int64))
        tf.identity(read(counter, "int64"))

    found = traced(metric)
    assert sizes(found.pulled) == {"ps:1": 8}
    assert found.first == []


@pytest.mark.tensorflow
def test_rows_of_unknown_number_are_told_at_run_time() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.exchange import sizes
    from tfscale.trainer.probe.graph.structures import other_bytes

    def lookup(weights: Any, _: Any) -> None:
        indices = tf.compat.v1.placeholder(tf.int64, (None,))
        tf.identity(tf.raw_ops.ResourceGather(resource=weights, indices=indices, dtype=tf.float32))

    found = traced(lookup)
    assert sizes(found.pulled) == {"ps:0": 0}
    with found.pulled["ps:0"][0].graph.as_default():
        assert len(other_bytes(found.pulled["ps:0"])) == 1
    assert [tensor.dtype for tensor in found.pushed["ps:0"]] == [tf.int64]


@pytest.mark.tensorflow
def test_what_is_passed_to_a_nested_function_stays_on_the_worker() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.exchange import exchange_of, sizes

    nested = []

    def step(weights: Any, _: Any) -> None:
        @tf.function
        def inner(batch: Any) -> Any:
            outcome = batch + read(weights)
            nested.append(exchange_of(tf.compat.v1.get_default_graph()))
            return outcome

        inner(tf.random.normal((4, 8)))

    assert not traced(step)
    assert sizes(nested[0].pulled) == {"ps:0": 4 * 8 * 4}
