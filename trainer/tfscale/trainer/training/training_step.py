"""Steps of a training: gradients, their exchange, and the update; called by `fit` or by a custom loop.

Without techniques a step does as Keras does. The optimizer then sums the gradients of all replicas itself; a technique
with an `exchange` takes its place, so that nothing is summed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tfscale.trainer.tf_internals import EXCHANGED_GRADIENTS
from tfscale.trainer.training.parts import Parts

LossOf = Callable[[Any, Any], Any]
"""Function of (labels, predictions): a replica's share of the mean loss over the global batch, scaled for float16."""


def fit_model(model: Any, parts: Parts) -> Any:
    """Return the model that `fit` trains: the layers of `model`, and steps with the techniques of the run.

    It is the same model where no technique touches the step. Call it in the strategy's scope, before `compile`; the
    compiled loss must be a mean over the batch, as Keras's losses are.
    """
    if parts.gradients is None and parts.exchange is None:
        return model

    class Trained(tf.keras.Model):  # type: ignore[misc]
        def train_step(self, data: tuple[Any, Any]) -> dict[str, Any]:
            features, labels = data
            replicas = tf.distribute.get_strategy().num_replicas_in_sync
            scale = loss_scale(self.optimizer)

            def loss_of(labels: Any, predictions: Any) -> Any:
                loss = self.compute_loss(y=labels, y_pred=predictions)
                _update_metrics(self, loss * replicas, labels, predictions)
                return loss * scale

            _, gradients = (parts.gradients or _gradients)(self, loss_of, features, labels)
            apply(self.optimizer, gradients, self.trainable_variables, parts.exchange)
            return dict(self.get_metrics_result())

    return Trained(_single(model.inputs), _single(model.outputs))


def custom_step(strategy: Any, model: Any, optimizer: Any, loss: Any, parts: Parts) -> Any:
    """Return a function that makes a step with a batch of its iterator, and returns the global mean loss.

    Args:
        strategy: made the model and the optimizer in its scope.
        model: a Keras model, compiled or not.
        optimizer: a Keras optimizer, of float16 with its loss scale.
        loss: a Keras loss.
        parts: the techniques.
    """
    with strategy.scope():
        optimizer.build(model.trainable_variables)
    gradients_of = parts.gradients or _gradients

    def replica_step(features: Any, labels: Any) -> Any:
        scale = loss_scale(optimizer)

        def loss_of(labels: Any, predictions: Any) -> Any:
            each = loss.call(labels, tf.cast(predictions, tf.float32))
            total = tf.add_n([tf.reduce_mean(each), *(tf.cast(extra, tf.float32) for extra in model.losses)])
            return total / strategy.num_replicas_in_sync * scale

        share, gradients = gradients_of(model, loss_of, features, labels)
        apply(optimizer, gradients, model.trainable_variables, parts.exchange)
        return share / scale

    def step(iterator: Any) -> Any:
        shares = strategy.run(replica_step, args=next(iterator))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    return tf.function(step)


def apply(
    optimizer: Any,
    gradients: Sequence[Any],
    variables: Sequence[Any],
    exchange: Callable[[list[Any]], list[Any]] | None,
) -> None:
    """Sum the gradients over the replicas, with `exchange` if given, and apply them, as one replica."""
    pairs = [pair for pair in zip(gradients, variables, strict=True) if pair[0] is not None]
    gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
    if not _is_keras_3(optimizer) and hasattr(optimizer, "get_unscaled_gradients"):
        gradients = optimizer.get_unscaled_gradients(gradients)
    if exchange is None:
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return
    gradients = _exchanged(optimizer, list(gradients), exchange)
    if _is_keras_3(optimizer):
        fault = EXCHANGED_GRADIENTS.fault()
        if fault is not None:
            raise RuntimeError(fault)
        # Keras 3 has no argument for it. Merging the replicas around `apply` would do for a plain optimizer, but not
        # for clipping, nor for LossScaleOptimizer.
        getattr(optimizer, "inner_optimizer", optimizer)._all_reduce_sum_gradients = list
        optimizer.apply(gradients, variables)
    else:
        optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)


def _exchanged(optimizer: Any, gradients: list[Any], exchange: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Exchange the gradients of the unscaled loss: a technique may keep them while the scale changes."""
    if not _is_keras_3(optimizer) or not hasattr(optimizer, "inner_optimizer"):
        return exchange(gradients)
    scale = loss_scale(optimizer)
    summed = exchange([tf.math.scalar_mul(1 / scale, gradient) for gradient in gradients])
    return [tf.math.scalar_mul(scale, gradient) for gradient in summed]


def loss_scale(optimizer: Any) -> Any:
    """Return the factor that multiplies the loss before its gradients are computed: 1 except for float16."""
    one = tf.constant(1.0)
    if _is_keras_3(optimizer):
        return optimizer.scale_loss(one)
    return optimizer.get_scaled_loss(one) if hasattr(optimizer, "get_scaled_loss") else one


def _gradients(model: Any, loss_of: LossOf, features: Any, labels: Any) -> tuple[Any, list[Any]]:
    """Return loss and gradients of a batch in one piece."""
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(features, training=True))
    return loss, tape.gradient(loss, model.trainable_variables)


def _single(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors


def _update_metrics(model: Any, loss: Any, labels: Any, predictions: Any) -> None:
    if not _is_keras_3(model.optimizer):
        # The loss has noted itself. A result, which compute_metrics returns, would be no part of a loop.
        model.compiled_metrics.update_state(labels, predictions)
        return
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss)
        else:
            metric.update_state(labels, predictions)


def _is_keras_3(optimizer: Any) -> bool:
    return hasattr(optimizer, "scale_loss")
