"""Small transformer encoder that predicts the topic of 32 tokens: two blocks of four heads, 170,500 weights.

The tokens are synthetic: half of a sequence comes from the quarter of the vocabulary that is its topic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 32
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 8_000
VOCABULARY, LENGTH, WIDTH, TOPICS = 1_000, 32, 64, 4


def examples(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return tokens of shape (n, 32) and the topic of each sequence."""
    random = np.random.default_rng(seed)
    topics = random.integers(0, TOPICS, count)
    anywhere = random.integers(0, VOCABULARY, (count, LENGTH))
    of_topic = topics[:, None] * (VOCABULARY // TOPICS) + random.integers(0, VOCABULARY // TOPICS, (count, LENGTH))
    tokens = np.where(random.random((count, LENGTH)) < 0.5, of_topic, anywhere)
    return tokens.astype(np.int32), topics


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers

    def block(inputs: Any) -> Any:
        normal = layers.LayerNormalization()(inputs)
        attended = layers.Add()([inputs, layers.MultiHeadAttention(4, WIDTH // 4)(normal, normal)])
        hidden = layers.Dense(4 * WIDTH, activation="relu")(layers.LayerNormalization()(attended))
        return layers.Add()([attended, layers.Dense(WIDTH)(hidden)])

    tokens = keras.Input((LENGTH,), dtype="int32")
    # A matrix for all positions, and a learned vector for each: without a class of its own, a saved model loads.
    positions = layers.EinsumDense(
        "btw,wv->btv", (LENGTH, WIDTH), bias_axes="tv", bias_initializer=keras.initializers.RandomNormal(stddev=0.02)
    )
    vectors = positions(layers.Embedding(VOCABULARY, WIDTH)(tokens))
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(block(block(vectors))))
    # In float32 also where a policy of mixed precision computes the others in 16 bits.
    return keras.Model(tokens, layers.Dense(TOPICS, dtype="float32")(pooled))


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
