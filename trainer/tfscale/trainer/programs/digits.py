"""Handwritten digits, 8 x 8, from scikit-learn: three convolutions and a classifier, 188,234 weights.

The 1,797 images travel with scikit-learn, so nothing is downloaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

NEEDS = ("sklearn",)
BATCH = 64
LEARNING_RATE = 0.001
METRICS = ("accuracy",)


def examples(seed: int) -> tuple[Any, Any]:
    """Return images of shape (n, 8, 8, 1), pixels from 0 to 1, and labels, in an order of the seed."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    return (images[order] / 16).astype(np.float32).reshape(-1, 8, 8, 1), labels[order]


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            # In float32 also where a policy of mixed precision computes the others in 16 bits.
            layers.Dense(10, dtype="float32"),
        ]
    )


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
