"""Predict under each strategy, and tell which replica saw each example: OUT.

The model's outputs are the example's number and that of the replica. OUT gets, by `strategy|number of examples`, the
pairs in the order in which `predict` returns them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from scopes import IS_FIRST, strategies

NUMBERS = (16, 11, 10, 9)
BATCH = 8


class Seen(tf.keras.layers.Layer):  # type: ignore[misc]
    """Layer that puts the number of the replica beside that of the example."""

    def call(self, numbers: Any) -> Any:
        # None while the model is built, in the scope but in no replica.
        context = tf.distribute.get_replica_context()
        replica = 0 if context is None else context.replica_id_in_sync_group
        return tf.concat([numbers, tf.fill(tf.shape(numbers), tf.cast(replica, numbers.dtype))], axis=1)

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0], 2)


def main(out: Path) -> None:
    found = {}
    for name, strategy in strategies():
        with strategy.scope():
            numbers = tf.keras.Input((1,))
            model = tf.keras.Model(numbers, Seen()(numbers))
        for number in NUMBERS:
            data = np.arange(number, dtype=np.float32)[:, None]
            found[f"{name}|{number}"] = model.predict(data, batch_size=BATCH, verbose=0).astype(int).tolist()
    if IS_FIRST:
        out.write_text(json.dumps(found))


main(Path(sys.argv[1]))
