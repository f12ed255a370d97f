"""Perceptron of eight layers of one size, without biases, so that parameter servers can hold equal parts of it.

Its 1,180,416 weights are 4,721,664 bytes, of which the last layer has 3,072: 1, 2, 4 or 8 servers have equal parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 16
LEARNING_RATE = 0.02
OPTIMIZER = "SGD"
METRICS = ("accuracy",)
EXAMPLES = 2_000
LAYERS, WIDTH = 8, 384


def examples(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return features of shape (n, 384), and on which side of a hidden plane each example is."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, WIDTH)).astype(np.float32)
    return features, (features @ random.normal(size=WIDTH) > 0).astype(np.int64)


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    even = [layers.Dense(WIDTH, "relu", use_bias=False, kernel_initializer="he_normal") for _ in range(LAYERS)]
    return keras.Sequential([keras.Input((WIDTH,)), *even, layers.Dense(2, use_bias=False)])


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
