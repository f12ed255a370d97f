"""Repairs of Keras 3's optimizers under strategies; seen with Keras 3.15.1 on TensorFlow 2.21.0."""

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


def repair_updates(module: Any) -> None:
    """Put the repair of accumulation, moving averages and clipping into `keras.src.backend.tensorflow.optimizer`.

    Keras makes each replica assign what only all replicas together may ("You must specify an aggregation method"), in a
    branch in which they cannot meet ("`merge_call` called while defining a new graph"). It clips each replica's part of
    a gradient before the parts are added up. Here gradients are added up first, and the rest is as on one device.
    """
    kind = module.TFOptimizer
    original = kind._backend_apply_gradients

    def apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> None:
        clips = self.clipnorm or self.clipvalue or self.global_clipnorm
        if not (self.use_ema or self.gradient_accumulation_steps or clips) or not _is_in_replica(self):
            original(self, grads, trainable_variables)
            return
        variables = [getattr(variable, "value", variable) for variable in trainable_variables]
        pairs = self._all_reduce_sum_gradients(list(zip(grads, variables, strict=True)))
        grads, rate = [grad for grad, _ in pairs], self.learning_rate
        if self.gradient_accumulation_steps:
            _accumulate(self, trainable_variables, grads, rate)
        else:
            self._apply_weight_decay(trainable_variables)
            pairs = list(zip(self._clip_gradients(grads), variables, strict=True))
            _merge(self._distributed_tf_update_step, pairs, rate)
        if self.use_ema:
            _average(self)

    kind._backend_apply_gradients = apply_gradients


def _is_in_replica(optimizer: Any) -> bool:
    replica = tf.distribute.get_replica_context()
    return replica is not None and tf.distribute.has_strategy() and optimizer._distribution_strategy is replica.strategy


def _merge(function: Any, *args: Any) -> None:
    """Call a function once for all replicas, with the strategy and all replicas' values."""
    tf.distribute.get_replica_context().merge_call(function, args)


def _accumulate(optimizer: Any, trainable_variables: Any, grads: list[Any], rate: Any) -> None:
    """Add to the accumulated gradients; after every few steps update the variables by their mean, and begin anew."""
    count = optimizer.gradient_accumulation_steps
    kept = [optimizer._accumulated_gradients[optimizer._get_variable_index(each)] for each in trainable_variables]
    sums = [tf.convert_to_tensor(total) + grad for total, grad in zip(kept, grads, strict=True)]
    means = optimizer._clip_gradients([total / count for total in sums])
    is_due = tf.equal((optimizer._iterations + 1) % count, 0)
    variables = [getattr(variable, "value", variable) for variable in trainable_variables]

    def update(strategy: Any, is_due: Any, sums: Any, means: Any, rate: Any) -> None:
        due = strategy.experimental_local_results(is_due)[0]

        def apply() -> None:
            _decay(optimizer, strategy, variables)
            optimizer._distributed_tf_update_step(strategy, zip(means, variables, strict=True), rate)

        tf.cond(due, apply, lambda: None)
        for total, value in zip(kept, sums, strict=True):
            strategy.extended.update(total.value, _set_or_clear, args=(value, is_due), group=False)

    _merge(update, is_due, sums, means, rate)


def _set_or_clear(variable: Any, value: Any, clears: Any) -> None:
    variable.assign(tf.where(clears, tf.zeros_like(value), value))


def _decay(optimizer: Any, strategy: Any, variables: list[Any]) -> None:
    """Decay weights, as Keras does within `merge_call`."""
    if optimizer.weight_decay is None:
        return

    def decay(variable: Any) -> None:
        if optimizer._use_weight_decay(variable):
            factor = tf.cast(optimizer.weight_decay, variable.dtype) * tf.cast(optimizer.learning_rate, variable.dtype)
            variable.assign_sub(variable * factor)

    for variable in variables:
        strategy.extended.update(variable, decay, group=False)


def _average(optimizer: Any) -> None:
    """Update the averages of the variables, and every few steps overwrite the variables with the averages."""
    # With accumulation these are the updates so far, and not the batches.
    updates, every = tf.convert_to_tensor(optimizer.iterations), optimizer.ema_overwrite_frequency
    averages = optimizer._model_variables_moving_average
    pairs = [
        (variable.value, average.value)
        for variable, average in zip(optimizer._trainable_variables, averages, strict=True)
        if average is not None
    ]

    def update(strategy: Any, updates: Any) -> None:
        update_number = strategy.experimental_local_results(updates)[0]
        momentum = tf.where(tf.equal(update_number, 0), 0.0, optimizer.ema_momentum)
        for variable, average in pairs:
            strategy.extended.update(average, _move, args=(variable, momentum), group=False)
        if every:
            tf.cond(tf.equal((update_number + 1) % every, 0), lambda: overwrite(strategy), lambda: None)

    def overwrite(strategy: Any) -> None:
        for variable, average in pairs:
            strategy.extended.update(variable, lambda one, other: one.assign(other), args=(average,), group=False)

    _merge(update, updates)


def _move(average: Any, value: Any, momentum: Any) -> None:
    momentum = tf.cast(momentum, average.dtype)
    average.assign(momentum * average + (1 - momentum) * value)


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
    """Make an optimizer's variables before, and outside of, the function that applies the optimizer first.

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

    Keras asks the first local replica about its own gradients, which are not reduced yet. Where only another replica's
    or worker's overflow, workers decide differently and wait for one another for ever.
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
