"""CIFAR-10 with the convolutional network 32-64-64-10, 167,562 weights; synthetic images where it is not on disk.

On disk means as Keras keeps it, in ~/.keras/datasets or below $KERAS_HOME: nothing is downloaded.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 64
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 5_000
"""Synthetic images; CIFAR-10 has 50,000."""


def examples(seed: int, count: int | None = None) -> tuple[Any, Any]:
    """Return images of shape (n, 32, 32, 3) with whole pixels from 0 to 255, and labels.

    Raises ValueError where `count` is given although CIFAR-10 is on disk.
    """
    parts = find_cifar10()
    if parts and count is not None:
        raise ValueError(f"CIFAR-10 is on disk, in {parts[0].parent}, and has all its 50,000 images; leave it out")
    return read(parts) if parts else synthetic(seed, EXAMPLES if count is None else count)


def find_cifar10() -> list[Path]:
    """Return the five files of the training images; empty if they are not on disk."""
    home = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"))
    return sorted((home / "datasets").glob("**/cifar-10-batches-py/data_batch_[1-5]"))[:5]


def read(parts: list[Path]) -> tuple[Any, Any]:
    """Read files of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html)."""
    batches = [pickle.loads(part.read_bytes(), encoding="bytes") for part in parts]
    images = np.concatenate([batch[b"data"] for batch in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([batch[b"labels"] for batch in batches])
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels


def synthetic(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return images of ten patterns of coarse blocks, each shifted and in noise, and the pattern of each image."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    patterns = random.uniform(40, 215, (10, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)
    shifts = random.integers(0, 32, (count, 2))
    images = np.stack([np.roll(patterns[label], shift, (0, 1)) for label, shift in zip(labels, shifts, strict=True)])
    noisy = images + random.normal(scale=40, size=images.shape)
    return noisy.clip(0, 255).astype(np.uint8), labels


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((32, 32, 3), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            # In float32 also where a policy of mixed precision computes the others in 16 bits.
            layers.Dense(10, dtype="float32"),
        ]
    )


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
