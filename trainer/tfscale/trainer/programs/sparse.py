"""Large sparse model: 520,000 vectors of 32 numbers, of which an example uses 26; 16,666,722 weights.

A click predictor in small. Nearly all weights are in the embedding, and a step touches few of them: its gradient is
IndexedSlices, which SGD applies to the used rows. `dense` has the same examples a second on one worker.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 64
LEARNING_RATE = 1.0
OPTIMIZER = "SGD"
METRICS = ("accuracy",)
EXAMPLES = 20_000
FIELDS, VALUES, WIDTH = 26, 20_000, 32


def examples(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return the value of each of 26 fields, rare and frequent ones, and whether the example was clicked."""
    random = np.random.default_rng(seed)
    values = (VALUES * random.random((count, FIELDS)) ** 6).astype(np.int32)
    effects = random.normal(size=(FIELDS, VALUES))
    scores = effects[np.arange(FIELDS), values].sum(axis=1)
    return values + VALUES * np.arange(FIELDS, dtype=np.int32), (scores > 0).astype(np.int64)


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((FIELDS,), dtype="int32"),
            layers.Embedding(FIELDS * VALUES, WIDTH),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            # In float32 also where a policy of mixed precision computes the others in 16 bits.
            layers.Dense(2, dtype="float32"),
        ]
    )


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
