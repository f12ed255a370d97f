"""Program of the bench of the advice: workers that train in step on examples that come slowly, as from a far disk.

Its time for a batch passes in sleep, so that batches can be made beside each other on a machine without spare cores.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

BATCH = 32


def main() -> None:
    """Train, and write how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds that a batch takes to come")
    parser.add_argument("--maps", type=int, default=1, help="batches that come at the same time")
    parser.add_argument("--prefetch", type=int, default=0, help="batches made ahead")
    parser.add_argument("--in-turn", action="store_true", help="tf.data makes no batch beside a step unasked")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=Path, required=True)
    flags = parser.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def fetched(_: object) -> np.float32:
        time.sleep(flags.pause)
        return np.float32(1)

    def batch(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        one = tf.ensure_shape(tf.numpy_function(fetched, [number], tf.float32), ())
        return tf.random.stateless_normal((BATCH, 784), (1, 2)) * one, tf.zeros((BATCH,), tf.int32)

    def dataset(_: object) -> tf.data.Dataset:
        batches = tf.data.Dataset.counter().map(batch, num_parallel_calls=flags.maps if flags.maps > 1 else None)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = not flags.in_turn
        return (batches.prefetch(flags.prefetch) if flags.prefetch else batches).with_options(options)

    with strategy.scope():
        layers = [tf.keras.layers.Dense(256, "relu"), tf.keras.layers.Dense(10)]
        model = tf.keras.Sequential([tf.keras.Input((784,)), *layers])
        optimizer = tf.keras.optimizers.SGD()
    ends: list[float] = []
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    def replica_step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / strategy.num_replicas_in_sync
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        strategy.run(replica_step, args=(x, y))

    for x, y in dataset(None).take(flags.steps):
        step(x, y)
        ends.append(time.monotonic())
    flags.json.write_text(json.dumps({"seconds": ends[-1] - ends[0]}))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
