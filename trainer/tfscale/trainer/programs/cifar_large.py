"""CIFAR-10 with the convolutional network 64-128-10, 1,846,410 weights; synthetic images where it is not on disk.

Its gradients are 7,385,640 bytes a step, eleven times those of `cifar-small`: nearly all belong to the first dense
layer.
"""

from __future__ import annotations

from typing import Any

from tfscale.trainer.programs.cifar_small import examples as examples
from tfscale.trainer.programs.cifar_small import loss as loss

BATCH = 64
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 5_000
"""Synthetic images, as many as of `cifar-small`."""


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((32, 32, 3), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            # In float32 also where a policy of mixed precision computes the others in 16 bits.
            layers.Dense(10, dtype="float32"),
        ]
    )
