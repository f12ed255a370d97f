"""Ops that stamps wait for, in graphs that grappler optimises."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow

SECONDS = 0.05


def late(tensor: Any) -> Any:
    """Return the tensor, later."""
    import tensorflow as tf

    def wait(value: Any) -> Any:
        time.sleep(SECONDS)
        return value

    return tf.ensure_shape(tf.numpy_function(wait, [tensor], tensor.dtype, stateful=False), tensor.shape)


def of_constants(tensor: Any) -> tuple[Any, Any]:
    half = late(tensor) * 0.5
    return half, 0.01 * half


def of_chain(tensor: Any) -> tuple[Any, Any]:
    third = 0.5 * (late(tensor) / 3.0)
    return third, 0.01 * third


def of_known_shape(tensor: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    mean = late(tensor) / tf.cast(tf.size(tensor), tf.float32)
    return mean, 0.01 * mean


def of_function(tensor: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    doubled = tf.function(lambda value: value + late(value))(tensor)
    return doubled, tf.identity(doubled)


def of_gradient(tensor: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    @tf.custom_gradient
    def slow(value: Any) -> Any:
        return value, lambda upstream: late(upstream * value)

    with tf.GradientTape() as tape:
        tape.watch(tensor)
        value = tf.function(lambda value: tf.reduce_sum(slow(value)))(tensor)
    (gradient,) = tape.gradient(value, [tensor])
    return gradient, tf.identity(gradient)


@pytest.mark.parametrize("make", [of_constants, of_chain, of_known_shape, of_function, of_gradient])
def test_a_stamp_waits_for_what_passes_rewrite(make: Callable[[Any], tuple[Any, Any]], ring: Any) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    buffer = RowBuffer([], ring)

    @tf.function
    def step(tensor: Any) -> Any:
        waited_for, used = make(tensor)
        buffer.write(1, [buffer.stamp([tensor]), buffer.stamp([waited_for])])
        return used

    for _ in range(3):
        step(tf.ones([4, 4]))
    rows, _ = buffer.read()
    assert len(rows) == 3 and all(row[2] - row[1] > 0.9 * SECONDS for row in rows)


def test_no_more_is_waited_for_than_what_may_be_rewritten() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows.awaited_ops import awaited

    @tf.function
    def step(first: Any, second: Any) -> Any:
        product = first * second
        assert awaited([product]) == [product]
        half = product * 0.5
        assert awaited([half, product]) == [product, half]
        return half

    step(tf.ones(3), tf.ones(3))
