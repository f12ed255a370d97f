"""Input pipeline of plain tf.data: map, cache, shuffle, repeat, batch, [service], prefetch, in this order.

The map comes before the cache, so that the second epoch does not repeat its work, which is right for a map without
randomness. The cache comes before the shuffle, because otherwise every epoch would have the order of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tfscale.trainer.input.input_flag import InputParts

MATRIX = 64
SPLIT = 64
"""Examples that a dispatcher hands out at once: each hand-out costs a call over the network, as a file of records
would."""


def from_anywhere(examples: Any) -> tf.data.Dataset:
    """Return all examples, begun at a place that is drawn anew where and when the pipeline runs."""
    data, count = tf.data.Dataset.from_tensor_slices(examples), len(examples[1])

    def turned(_: Any) -> tf.data.Dataset:
        begin = _any_number(count)
        return data.skip(begin).concatenate(data.take(begin))

    return tf.data.Dataset.range(1).flat_map(turned)


def in_splits(examples: Any) -> tf.data.Dataset:
    """Return all examples, of which a dispatcher hands out SPLIT at a time."""
    begins = tf.data.Dataset.range(0, len(examples[1]), SPLIT)
    features, labels = map(tf.constant, examples)
    slices = tf.data.Dataset.from_tensor_slices
    return begins.flat_map(lambda begin: slices((features[begin:][:SPLIT], labels[begin:][:SPLIT])))


def _any_number(below: int) -> tf.Tensor:
    """Return a random number that is drawn where and when the op runs, whatever seed TensorFlow has."""
    scalar, zero = tf.constant([], tf.int32), tf.constant(0, tf.int64)
    return tf.raw_ops.RandomUniformInt(shape=scalar, minval=zero, maxval=tf.constant(below, tf.int64), seed=0, seed2=0)


def prepared(data: tf.data.Dataset, parts: InputParts) -> tf.data.Dataset:
    """Return the examples after their work, kept in memory after the first epoch."""
    if parts.map:
        # Without a number one example after the other, by the thread that asks for it.
        data = data.map(_work(parts.work), num_parallel_calls=None if parts.map == 1 else parts.map)
    return data.cache() if parts.cache else data


def batched(data: tf.data.Dataset, parts: InputParts, size: int, examples: int, seed: int) -> tf.data.Dataset:
    """Return batches without end; `examples` is the number of examples."""
    if parts.shuffle:
        data = data.shuffle(min(parts.shuffle, examples), seed=seed)
    return data.repeat().batch(size, drop_remainder=True)


def distributed(
    strategy: tf.distribute.Strategy, dataset: Callable[[tf.distribute.InputContext], Any], parts: InputParts
) -> Any:
    """Return the batches of all replicas: each worker has a pipeline of its own, or all share one dataset by shards."""
    if parts.auto_shard is None:
        return strategy.distribute_datasets_from_function(dataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[parts.auto_shard.upper()]
    # Global batches: each worker takes its part of them.
    return strategy.experimental_distribute_dataset(dataset(tf.distribute.InputContext()).with_options(options))


def _work(products: int) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a function for `map` that multiplies matrices `work` times and returns the example unchanged."""

    def work(features: Any, label: Any) -> tuple[Any, Any]:
        first = tf.cast(tf.reshape(features, (-1,))[0], tf.float32)
        matrix = tf.fill((MATRIX, MATRIX), first)
        done = tf.while_loop(lambda i, _: i < products, lambda i, m: (i + 1, tf.tanh(m @ m)), (0, matrix))[1]
        # Never true, which TensorFlow cannot know: it leaves out work on whose result nothing depends.
        return tf.where(tf.reduce_max(done) > 1.5, tf.zeros_like(features), features), label

    return work
