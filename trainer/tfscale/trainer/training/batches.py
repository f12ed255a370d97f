"""Data of a run: examples of the program, a tenth of them held out, and batches of the rest for each input pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

MOST_HELD_OUT = 512
"""Examples that are held out at most, so that the accuracy of a large model is known within seconds."""
SHUFFLED = 10_000
"""Examples among which the next one is drawn."""

Examples = tuple[Any, Any]
"""Features and labels, arrays of as many rows."""


def split(features: Any, labels: Any) -> tuple[Examples, Examples]:
    """Return the examples to train on, and those that are held out."""
    count = min(len(labels) // 10, MOST_HELD_OUT)
    return (features[count:], labels[count:]), (features[:count], labels[:count])


def batches(
    examples: Examples, global_batch: int, seed: int
) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
    """Return the function of `distribute_datasets_from_function`: batches of one replica, shuffled, without end.

    Each input pipeline has its own share of the examples, since it takes every n-th of n pipelines.
    """
    features, labels = examples

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        pipelines, pipeline = context.num_input_pipelines, context.input_pipeline_id
        data = tf.data.Dataset.from_tensor_slices((features[pipeline::pipelines], labels[pipeline::pipelines]))
        data = data.shuffle(min(SHUFFLED, len(labels)), seed=seed + pipeline).repeat()
        return data.batch(context.get_per_replica_batch_size(global_batch), drop_remainder=True).prefetch(2)

    return dataset
