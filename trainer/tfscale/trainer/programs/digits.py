"""Handwritten digits on several machines: `model.fit` under MultiWorkerMirroredStrategy.

scikit-learn's digits (1,797 images of 8 x 8) travel with its package, so nothing is downloaded. The same script runs on
one machine, where no TF_CONFIG names a cluster, and with tf_keras, where TF_USE_LEGACY_KERAS=1.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tfscale.trainer.delay import Delay
from tfscale.trainer.delays import Delays

STEPS_PER_EPOCH = 100


def main(arguments: Sequence[str] | None = None) -> None:
    """Train until the epochs are over."""
    parser = argparse.ArgumentParser(prog="tfscale-train digits", description=__doc__, allow_abbrev=False)
    parser.add_argument("--epochs", type=int, default=5, help=f"of {STEPS_PER_EPOCH} steps each; default 5")
    parser.add_argument("--batch", type=int, default=64, help="examples a step on each worker; default 64")
    parser.add_argument(
        "--slow", type=Delay.parse, metavar="60ms|1.3x[,PHASE][@30s]", help="a real delay in each step of this worker"
    )
    settings = parser.parse_args(arguments)
    train(settings.epochs, settings.batch, settings.slow)


def train(epochs: int, batch: int, slow: Delay | None) -> None:
    """Build the model under the strategy and fit it."""
    keras = tf.keras
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    delays = Delays(keras, _Due(slow))
    with strategy.scope():
        model = build_model(keras, [delays.begin()] if slow else [])
        adam = keras.optimizers.Adam
        model.compile(
            optimizer=delays.optimizer(adam, 0.001) if slow else adam(0.001),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        batches = digits(batch, context.num_input_pipelines, context.input_pipeline_id)
        return delays.input(batches) if slow else batches

    model.fit(
        strategy.distribute_datasets_from_function(dataset),
        epochs=epochs,
        steps_per_epoch=STEPS_PER_EPOCH,
        callbacks=[delays.callback()] if slow else [],
        verbose=2,
    )


def digits(batch: int, shards: int, shard: int) -> tf.data.Dataset:
    """Return this worker's share of the images, shuffled anew each time round, without end; pixels are 0 to 1."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    examples = tf.data.Dataset.from_tensor_slices((images[shard::shards], labels[shard::shards]))
    return examples.cache().shuffle(1000, seed=shard).repeat().batch(batch, drop_remainder=True)


def build_model(keras: Any, first: list[Any]) -> Any:
    """Build three convolutions and a classifier, about 240,000 weights."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            *first,
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


class _Due:
    """Delay of a phase now; its start is counted from the first step."""

    def __init__(self, slow: Delay | None) -> None:
        self._slow = slow
        self._first: float | None = None

    def __call__(self, phase: str) -> Delay | None:
        if self._slow is None:
            return None
        if self._first is None:
            if phase != "compute":
                return None
            self._first = time.monotonic()
        return self._slow if phase == self._slow.phase and time.monotonic() - self._first >= self._slow.start else None


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
