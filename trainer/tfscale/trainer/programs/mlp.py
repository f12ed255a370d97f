"""Perceptron 784-256-128-10 on synthetic images of MNIST's shape, 235,146 weights: more bytes than arithmetic.

A step is short and its gradients are 940,584 bytes, so that workers soon wait for the network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 64
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 10_000


def examples(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return images of shape (n, 784), each one of ten patterns in noise four times as strong, and the patterns."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    patterns = random.normal(size=(10, 784))
    images = patterns[labels] + 4 * random.normal(size=(count, 784))
    return images.astype(np.float32), labels


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((784,)),
            layers.Dense(256, activation="relu"),
            layers.Dense(128, activation="relu"),
            # In float32 also where a policy of mixed precision computes the others in 16 bits.
            layers.Dense(10, dtype="float32"),
        ]
    )


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
