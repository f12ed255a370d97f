"""Small transformer encoder that tells the topic of 32 tokens: two blocks of four heads, 166,404 weights.

The tokens are synthetic: a sequence has half of them from the quarter of the vocabulary that is its topic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 32
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 8_000
VOCABULARY, LENGTH, WIDTH, TOPICS = 1_000, 32, 64, 4


def examples(seed: int) -> tuple[Any, Any]:
    """Return tokens of shape (n, 32) and the topic of each sequence."""
    random = np.random.default_rng(seed)
    topics = random.integers(0, TOPICS, EXAMPLES)
    anywhere = random.integers(0, VOCABULARY, (EXAMPLES, LENGTH))
    of_topic = topics[:, None] * (VOCABULARY // TOPICS) + random.integers(0, VOCABULARY // TOPICS, (EXAMPLES, LENGTH))
    tokens = np.where(random.random((EXAMPLES, LENGTH)) < 0.5, of_topic, anywhere)
    return tokens.astype(np.int32), topics


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns logits."""
    layers = keras.layers

    class Positions(layers.Layer):  # type: ignore[misc, name-defined]
        """Layer that adds a learned vector to each position."""

        def build(self, shape: Any) -> None:
            self.positions = self.add_weight(
                name="positions", shape=tuple(shape[1:]), initializer=keras.initializers.RandomNormal(stddev=0.02)
            )

        def call(self, vectors: Any) -> Any:
            return vectors + self.positions

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

    def block(inputs: Any) -> Any:
        normal = layers.LayerNormalization()(inputs)
        attended = layers.Add()([inputs, layers.MultiHeadAttention(4, WIDTH // 4)(normal, normal)])
        hidden = layers.Dense(4 * WIDTH, activation="relu")(layers.LayerNormalization()(attended))
        return layers.Add()([attended, layers.Dense(WIDTH)(hidden)])

    tokens = keras.Input((LENGTH,), dtype="int32")
    vectors = Positions()(layers.Embedding(VOCABULARY, WIDTH)(tokens))
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(block(block(vectors))))
    # In float32 also where a policy of mixed precision computes the others in 16 bits.
    return keras.Model(tokens, layers.Dense(TOPICS, dtype="float32")(pooled))


def loss(keras: Any) -> Any:
    """Return the loss of logits and whole labels."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
