"""Repairs of Keras 3 under MirroredStrategy and similar strategies, each of one step of Keras's own TensorFlow trainer.

Seen with Keras 3.15.1 on TensorFlow 2.21.0. Each gets the module `keras.src.backend.tensorflow.trainer`.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tfscale.trainer import tf_internals


def repair_symbolic_build(trainer: Any) -> None:
    """Learn the shapes of a batch from this worker's part, and a generator's from its specification.

    Under several workers Keras averages a PerReplica batch eagerly for this, which raises. A generator does not begin
    anew: the batch, and those that were fetched ahead of it, were never trained on.
    """
    generated = tf_internals.SYMBOLIC_BUILD["GeneratorDataAdapter.generator"].owner

    def maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if self._distribute_strategy is None:
            return

        def first_part(value: Any) -> Any:
            return self.distribute_strategy.experimental_local_results(value)[0]

        if iterator is not None and isinstance(iterator.data_adapter, generated):
            data_batch = batch_spec(iterator)
        elif iterator is not None:
            for _, _, batches in iterator:
                data_batch = trainer.tree.map_structure(first_part, next(batches))
                break
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    tf_internals.keras_trainer()._maybe_symbolic_build = maybe_symbolic_build


def batch_spec(iterator: Any) -> Any:
    """Return the specification of one replica's batch, of Keras's iterator."""
    return tf.nest.map_structure(_first_replica, iterator._distributed_dataset.element_spec)


def _first_replica(spec: Any) -> Any:
    return getattr(spec, "_value_specs", (spec,))[0]


def repair_reduce_per_replica(trainer: Any) -> None:
    """Average scalar metrics over no axis; Keras averages over axis 0, which a scalar does not have."""
    original = trainer.reduce_per_replica

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean") or not trainer._collective_all_reduce_multi_worker(strategy):
            return original(values, strategy, reduction)

        def mean(value: Any) -> Any:
            rank = strategy.experimental_local_results(value)[0].shape.rank
            return strategy.reduce("MEAN", value, axis=None if rank == 0 else 0)

        return trainer.tree.map_structure(mean, values)

    trainer.reduce_per_replica = reduce_per_replica


def repair_predict(trainer: Any) -> None:
    """Shard the data of `predict` by DATA, whatever its options say, as tf_keras does.

    Keras gathers the outputs of all workers as if each had its own part of the batch. With auto-shard OFF all workers
    have the same part, and outputs are silently doubled, left out or out of place.
    """
    kind = tf_internals.keras_trainer()
    original = kind.predict

    @functools.wraps(original)
    def predict(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, tf.data.Dataset) and trainer._collective_all_reduce_multi_worker(self.distribute_strategy):
            options = tf.data.Options()
            options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
            x = x.with_options(options)
        return original(self, x, *args, **kwargs)

    kind.predict = predict
