"""Input pipeline of plain tf.data: map, cache, shuffle, repeat, batch, prefetch, in this order.

The map comes before the cache, so that the second epoch does without its work: right where it draws nothing at random.
The cache comes before the shuffle, which else would give every epoch the order of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tfscale.trainer.input.input_flag import InputParts

MATRIX = 64


def prepared(data: tf.data.Dataset, parts: InputParts) -> tf.data.Dataset:
    """Return the examples, each worked on, and kept in memory after the first epoch."""
    if parts.map:
        # Without a number one example after the other, by the thread that asks for it.
        data = data.map(_work(parts.work), num_parallel_calls=None if parts.map == 1 else parts.map)
    return data.cache() if parts.cache else data


def batched(data: tf.data.Dataset, parts: InputParts, size: int, examples: int, seed: int) -> tf.data.Dataset:
    """Return batches without end; `examples` is how many there are."""
    if parts.shuffle:
        data = data.shuffle(min(parts.shuffle, examples), seed=seed)
    data = data.repeat().batch(size, drop_remainder=True)
    return data.prefetch(parts.prefetch) if parts.prefetch else data


def distributed(
    strategy: tf.distribute.Strategy, dataset: Callable[[tf.distribute.InputContext], Any], parts: InputParts
) -> Any:
    """Return the batches of all replicas: of a pipeline for each worker, or of one dataset that is sharded for them."""
    if parts.auto_shard is None:
        return strategy.distribute_datasets_from_function(dataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[parts.auto_shard.upper()]
    # Global batches: each worker takes its part of them.
    return strategy.experimental_distribute_dataset(dataset(tf.distribute.InputContext()).with_options(options))


def _work(products: int) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the function of `map` that leaves an example as it is, after so many products of matrices."""

    def work(features: Any, label: Any) -> tuple[Any, Any]:
        first = tf.cast(tf.reshape(features, (-1,))[0], tf.float32)
        matrix = tf.fill((MATRIX, MATRIX), first)
        done = tf.while_loop(lambda i, _: i < products, lambda i, m: (i + 1, tf.tanh(m @ m)), (0, matrix))[1]
        # Never true, which TensorFlow cannot know: it leaves out work on whose result nothing depends.
        return tf.where(tf.reduce_max(done) > 1.5, tf.zeros_like(features), features), label

    return work
