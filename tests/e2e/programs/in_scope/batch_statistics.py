"""Run BatchNormalization and Dropout for one step under each strategy, and tell what comes of it: OUT.

The examples of the first half of the replicas are zeros, those of the rest ones. A replica's own statistics make all of
them 0, those of all replicas would not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from scopes import IS_FIRST, strategies


def main(out: Path) -> None:
    found = {}
    for name, strategy in strategies():
        try:
            found[name] = moving_mean(strategy)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if IS_FIRST:
        out.write_text(json.dumps(found))


def moving_mean(strategy: Any) -> list[float]:
    """Return the largest output of the step, and the moving mean after it."""
    with strategy.scope():
        normalization = tf.keras.layers.BatchNormalization(momentum=0.0)
        normalization.build((None, 1))
        dropout = tf.keras.layers.Dropout(0.5)
    replicas = strategy.num_replicas_in_sync

    def replica_step() -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        is_late = tf.cast(replica, tf.float32) * 2 >= replicas
        return dropout(normalization(tf.fill((4, 1), tf.cast(is_late, tf.float32)), training=True), training=True)

    outputs = strategy.run(tf.function(replica_step))
    largest = max(float(abs(each).numpy().max()) for each in strategy.experimental_local_results(outputs))
    return [largest, float(np.asarray(normalization.get_weights()[2]).mean())]


main(Path(sys.argv[1]))
