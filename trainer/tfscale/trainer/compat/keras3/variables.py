"""Repairs of Keras 3's variables that are elsewhere than the replicas.

Keras 3.15.1 on TensorFlow 2.21.0 reads a variable, adds and writes it back. Where two workers do so at the same time
under ParameterServerStrategy, one addition is lost: 330 of 480 iterations were counted. CentralStorageStrategy sums its
replicas' writes, so that with two replicas a metric's total doubles in each step: after 8 batches of 32 examples it had
counted 8,160, and a mean loss stays that of the first step. TensorFlow's own method adds in one operation.

Moving averages of BatchNormalization and seeds of Dropout have no aggregation in Keras 3, and CentralStorageStrategy
refuses to assign such a variable in a replica. tf_keras takes the mean.

An Embedding reads all of its table and looks its rows up where it computes: of a table on a parameter server a worker
pulled 66.6 MB in each step to use 213 kB of rows. TensorFlow's own variables are looked up where they are.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.keras3.on_servers import has_servers

CENTRAL = tf.distribute.experimental.CentralStorageStrategy


def repair(core: Any) -> None:
    """Put the repair into the module that defines Keras's variables."""
    for name in ("assign_add", "assign_sub"):
        _add_at_once(core.Variable, name)


def _add_at_once(kind: type, name: str) -> None:
    original = getattr(kind, name)

    def assign(self: Any, value: Any) -> Any:
        if not _is_elsewhere(tf.distribute.get_strategy()) or self._value is None:
            return original(self, value)
        getattr(self._value, name)(tf.cast(value, self._value.dtype))
        return self._value

    setattr(kind, name, assign)


def repair_aggregation(core: Any) -> None:
    """Assign under CentralStorageStrategy the mean of the replicas' values, or the first of whole numbers."""
    original = core.Variable._map_aggregation

    def map_aggregation(self: Any, aggregation: str) -> Any:
        strategy = tf.distribute.get_strategy()
        if aggregation == "none" and not self.trainable and isinstance(strategy, CENTRAL):
            aggregation = "mean" if "float" in self._dtype else "only_first_replica"
        return original(self, aggregation)

    core.Variable._map_aggregation = map_aggregation


def repair_lookup(core: Any) -> None:
    """Look rows up on the parameter server that holds the variable; `tf.gather` asks a variable for `sparse_read`."""

    def sparse_read(self: Any, indices: Any, name: str | None = None) -> Any:
        return self._maybe_autocast(self._value.sparse_read(indices, name=name))

    def on_a_server(self: Any) -> Any:
        # Without this attribute, as in stock, `tf.gather` reads the whole variable.
        if self._value is None or tf.DeviceSpec.from_string(self._value.device).job != "ps":
            raise AttributeError("sparse_read")
        return sparse_read.__get__(self)

    core.Variable.sparse_read = property(on_a_server)


def _is_elsewhere(strategy: tf.distribute.Strategy) -> bool:
    return has_servers(strategy) or isinstance(strategy, CENTRAL)
