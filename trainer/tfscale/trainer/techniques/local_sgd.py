"""Local SGD: each replica trains by itself, and all take the mean of their weights after every k steps.

For a network on which an all-reduce takes longer than a step: the bytes fall to 1/k. Between two means the replicas
drift apart, the more so the larger k and the learning rate are. The state of the optimizer, such as momentum, stays
with each replica. End a training after a multiple of k steps: further steps count for the first replica alone.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

VALUES = "steps between two means of the weights, 2 or more"
REFUSED = {
    "one-device": "it has one replica, so there is no mean to take",
    "central-storage": "its replicas share one copy of the weights",
    "parameter-server": "its workers share the weights on the servers",
}


def parse(text: str) -> int:
    """Return the number of steps. Raises ValueError."""
    if not text.isdecimal() or int(text) < 2:
        raise ValueError("write the number of steps between two means of the weights, 2 or more")
    return int(text)


def exchange(_steps: int, gradients: list[Any]) -> list[Any]:
    """Return the gradients of this replica's own mean loss, from those of its share in all replicas' mean."""
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    return [tf.math.scalar_mul(float(replicas), gradient) for gradient in gradients]


def after_step(steps: int, strategy: Any, model: Any, step: int) -> None:
    """Take the mean of the weights after every k-th step."""
    if step % steps == 0:
        _averaging(strategy, model)()


@functools.cache
def _averaging(strategy: Any, model: Any) -> Any:
    """Return a function, traced once, that gives all replicas the mean of their trainable weights."""
    variables = [_tf_variable(variable) for variable in model.trainable_variables]

    def assign(strategy: Any, *means: Any) -> None:
        for variable, mean in zip(variables, means, strict=True):
            strategy.extended.update(variable, lambda copy, new: copy.assign(new), args=(mean,))

    def replica_mean() -> None:
        replica = tf.distribute.get_replica_context()
        means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [variable.read_value() for variable in variables])
        replica.merge_call(assign, args=means)

    return tf.function(lambda: strategy.run(replica_mean))


def _tf_variable(variable: Any) -> Any:
    """Return the TensorFlow variable; a variable of Keras 3 holds one."""
    return variable if isinstance(variable, tf.Variable) else variable.value
