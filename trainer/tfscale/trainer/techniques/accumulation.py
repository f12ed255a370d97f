"""Gradient accumulation: the batch of a step in successive micro-batches, with one all-reduce.

For batches whose activations exceed the memory: only one micro-batch's exist at a time. The sum of the gradients is
that of the whole batch. Layers that look at a batch see a micro-batch: BatchNormalization takes the statistics of each,
and moves its averages once for each; dropout draws anew for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

VALUES = "micro-batches of a step, 2 or more"


def parse(text: str) -> int:
    """Return the number of micro-batches. Raises ValueError."""
    if not text.isdecimal() or int(text) < 2:
        raise ValueError("write the number of micro-batches of a step, 2 or more")
    return int(text)


def check_batch(count: int, batch: int) -> None:
    """Raise ValueError where a replica's batch cannot be cut into equal micro-batches."""
    if batch % count:
        raise ValueError(f"a replica's batch of {batch} examples cannot be cut into {count} equal micro-batches")


def gradients(
    count: int, model: Any, loss_of: Callable[[Any, Any], Any], features: Any, labels: Any
) -> tuple[Any, list[Any]]:
    """Return mean loss and gradients of a replica's batch, in `count` equal micro-batches."""
    variables = model.trainable_variables
    features, labels = _micro_batches(features, count), _micro_batches(labels, count)

    def add(index: Any, loss: Any, sums: list[Any]) -> tuple[Any, Any, list[Any]]:
        with tf.GradientTape() as tape:
            part = loss_of(labels[index], model(features[index], training=True)) / count
        parts = tape.gradient(part, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        sums = [total + tf.convert_to_tensor(each) for total, each in zip(sums, parts, strict=True)]
        return index + 1, loss + part, sums

    # A loop of the graph, since micro-batches that a Python loop writes side by side would be computed at the same
    # time, with the activations of all of them in memory.
    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    _, loss, sums = tf.while_loop(
        lambda index, *_: index < count, add, (0, 0.0, zeros), parallel_iterations=1, maximum_iterations=count
    )
    return loss, sums


def _micro_batches(batch: Any, count: int) -> Any:
    """Return a batch of shape (n, ...) as micro-batches (count, n / count, ...)."""
    return tf.reshape(batch, [count, -1, *batch.shape[1:]])
