"""Keras 3's `assign_add` and `assign_sub` under ParameterServerStrategy.

Seen with Keras 3.15.1 on TensorFlow 2.21.0: Keras reads a variable, adds and writes it back. Two workers that do so
at a time lose one of the two: 330 of 480 iterations were counted. The parameter server can add in one go.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import parameter_server_strategy_v2


def repair(core: Any) -> None:
    """Put the repair into the module `keras.src.backend.tensorflow.core`."""
    for name in ("assign_add", "assign_sub"):
        _make_atomic(core.Variable, name)


def _make_atomic(kind: type, name: str) -> None:
    original = getattr(kind, name)

    def assign(self: Any, value: Any) -> Any:
        if not _on_servers() or self._value is None:
            return original(self, value)
        getattr(self._value, name)(tf.cast(value, self._value.dtype))
        return self._value

    setattr(kind, name, assign)


def _on_servers() -> bool:
    strategy = tf.distribute.get_strategy()
    return isinstance(strategy.extended, parameter_server_strategy_v2.ParameterServerStrategyV2Extended)
