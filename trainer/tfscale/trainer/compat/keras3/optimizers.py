"""Repairs of Keras 3's optimizers in custom loops; seen with Keras 3.15.1 on TensorFlow 2.21.0."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf


def repair(module: Any) -> None:
    """Put the repair into the module `keras.src.backend.tensorflow.optimizer`."""
    kind = module.TFOptimizer

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        _build_outside(self, trainable_variables)
        return super(kind, self).apply(grads, trainable_variables)

    kind.apply = apply


def repair_loss_scale(module: Any) -> None:
    """Put the repairs into the module `keras.src.optimizers.loss_scale_optimizer`."""
    kind = module.LossScaleOptimizer
    original = kind.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        _build_outside(self, trainable_variables)
        return original(self, grads, trainable_variables)

    kind.apply = apply
    _repair_finite(kind)


def _build_outside(optimizer: Any, variables: Any) -> None:
    """Make an optimizer's variables outside of the function that applies it first.

    Keras makes them inside, once for each replica; under MirroredStrategy the function then raises "You must feed a
    value for placeholder tensor".
    """
    replica = tf.distribute.get_replica_context()
    if optimizer.built or variables is None or replica is None or not tf.distribute.has_strategy():
        return
    if optimizer._distribution_strategy is not replica.strategy:
        return
    variables = list(variables)

    def build(strategy: tf.distribute.Strategy) -> None:
        with tf.init_scope(), strategy.scope():
            optimizer.build(variables)

    replica.merge_call(build)


def _repair_finite(kind: Any) -> None:
    """Let all replicas agree whether gradients are finite, because an all-reduce follows only if they are.

    Keras asks the first local replica about its own gradients, which are not reduced yet. Where only those of another
    replica or worker overflow, workers decide differently and wait for one another for ever.
    """
    original = kind.check_finite

    def check_finite(self: Any, grads: Any) -> Any:
        finite = original(self, grads)
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return finite
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(finite, tf.float32)) == float(
            context.num_replicas_in_sync
        )

    kind.check_finite = check_finite
