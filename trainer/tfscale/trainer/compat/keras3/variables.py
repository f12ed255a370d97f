"""Atomic `assign_add` and `assign_sub` of Keras 3 under ParameterServerStrategy.

Keras 3.15.1 on TensorFlow 2.21.0 reads a variable, adds and writes it back. Where two workers do so at the same time,
one addition is lost: 330 of 480 iterations were counted. The parameter server adds in one operation.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.keras3.on_servers import has_servers


def repair(core: Any) -> None:
    """Put the repair into the module `keras.src.backend.tensorflow.core`."""
    for name in ("assign_add", "assign_sub"):
        _make_atomic(core.Variable, name)


def _make_atomic(kind: type, name: str) -> None:
    original = getattr(kind, name)

    def assign(self: Any, value: Any) -> Any:
        if not has_servers(tf.distribute.get_strategy()) or self._value is None:
            return original(self, value)
        getattr(self._value, name)(tf.cast(value, self._value.dtype))
        return self._value

    setattr(kind, name, assign)
