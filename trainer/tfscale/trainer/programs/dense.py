"""Large dense model: a perceptron of 4 layers whose every weight has a gradient in every step; 1,839,490 weights.

`sparse` has the same rate on one worker (208 steps/s, and 212 here: medians of three runs of 400 steps, quiet machine);
here all gradients travel in every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 64
LEARNING_RATE = 0.05
OPTIMIZER = "SGD"
METRICS = ("accuracy",)
EXAMPLES = 20_000
FEATURES, WIDTH = 256, 896


def examples(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return features of shape (n, 256), and on which side of a hidden plane each example is."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, FEATURES)).astype(np.float32)
    return features, (features @ random.normal(size=FEATURES) > 0).astype(np.int64)


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Dense(WIDTH, activation="relu"),
            layers.Dense(WIDTH, activation="relu"),
            layers.Dense(WIDTH, activation="relu"),
            # In float32 also where a policy of mixed precision computes the others in 16 bits.
            layers.Dense(2, dtype="float32"),
        ]
    )


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
