"""Data of a run: examples of the program, a tenth of them held out, and batches of the rest for each input pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tfscale.trainer.input.input_flag import USUAL, InputParts
from tfscale.trainer.input.input_pipeline import batched, prepared

MOST_HELD_OUT = 512
"""Examples that are held out at most, so that the accuracy of a large model is known within seconds."""

Examples = tuple[Any, Any]
"""Features and labels, arrays of as many rows."""


def split(features: Any, labels: Any) -> tuple[Examples, Examples]:
    """Return the examples to train on, and those that are held out."""
    count = min(len(labels) // 10, MOST_HELD_OUT)
    return (features[count:], labels[count:]), (features[:count], labels[:count])


def batches(
    examples: Examples, global_batch: int, seed: int | None, parts: InputParts = USUAL
) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
    """Return the function of `distribute_datasets_from_function`: batches of one replica, without end.

    Each input pipeline has its own share of the examples: it takes every n-th of n pipelines. A parameter server's
    workers each have one that knows of no other: all examples, and with a `seed` in the same order for all of them.
    Without one each begins at a place of its own.
    """
    features, labels = examples

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        pipelines, pipeline = context.num_input_pipelines, context.input_pipeline_id
        data = tf.data.Dataset.from_tensor_slices((features[pipeline::pipelines], labels[pipeline::pipelines]))
        data = prepared(data, parts)
        if seed is None:
            data = data.repeat().skip(_any_number(len(labels)))
        size = context.get_per_replica_batch_size(global_batch)
        return batched(data, parts, size, len(labels), pipeline + (seed or 0))

    return dataset


def _any_number(below: int) -> tf.Tensor:
    """Return a number that is drawn where and when the op runs, whatever seed TensorFlow has."""
    scalar, zero = tf.constant([], tf.int32), tf.constant(0, tf.int64)
    return tf.raw_ops.RandomUniformInt(shape=scalar, minval=zero, maxval=tf.constant(below, tf.int64), seed=0, seed2=0)
