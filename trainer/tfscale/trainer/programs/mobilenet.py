"""MobileNetV2 on images of 224 x 224, trained as a whole: 2,914,369 weights, of which 2,880,257 are trainable.

The usual recipe with a head of its own: 512 units, half of them dropped, and one output for two kinds of images.
Weights begin at random, since nothing is downloaded. BatchNormalization takes the statistics of a replica's own part of
the batch. Its moving averages, with which a trained model predicts, are a replica's own, too: Keras 3 keeps the first
replica's, tf_keras the mean of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 32
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 640
SIZE = 224


def examples(seed: int, count: int = EXAMPLES, size: int = SIZE) -> tuple[Any, Any]:
    """Return images of shape (n, size, size, 3) with whole pixels, and 1 for upright stripes in noise, 0 for level."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, (count, 1))
    stripes = np.where(np.arange(size) // 8 % 2, 80, 176)
    images = np.empty((count, size, size, 3), np.uint8)
    # One after the other: the noise of all at the same time would be twice as many bytes as the images.
    for image, label in zip(images, labels, strict=True):
        shifted = np.roll(stripes, random.integers(16))
        pattern = shifted[None, :, None] if label else shifted[:, None, None]
        image[:] = pattern + random.integers(-64, 65, image.shape, np.int16)
    return images, labels


def build_model(keras: Any, size: int = SIZE, alpha: float = 1.0) -> Any:
    """Build the model; its last layer returns a probability. `alpha` widens or narrows all layers of MobileNetV2."""
    layers = keras.layers
    base = keras.applications.MobileNetV2((size, size, 3), alpha, include_top=False, weights=None, pooling="avg")
    images = keras.Input((size, size, 3), dtype="uint8")
    features = base(layers.Rescaling(1 / 127.5, offset=-1)(images))
    hidden = layers.Dropout(0.5)(layers.Dense(512, activation="relu")(features))
    # In float32 also where a policy of mixed precision computes the others in 16 bits.
    return keras.Model(images, layers.Dense(1, activation="sigmoid", dtype="float32")(hidden))


def loss(keras: Any) -> Any:
    """Return the loss of probabilities and labels of 0 and 1."""
    return keras.losses.BinaryCrossentropy()
