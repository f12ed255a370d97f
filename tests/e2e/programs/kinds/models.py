"""Kinds of models: how layers are put together, and which layers they are."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, main, program, told

layers = tf.keras.layers


def _seeded():
    tf.keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


def _fit(network, x, y, epochs=1, **compiling):
    network.compile(**{"optimizer": "sgd", "loss": "mse", **compiling})
    history = network.fit(x, y, batch_size=BATCH, shuffle=False, epochs=epochs, verbose=0).history
    return told(history["loss"], epochs * STEPS)


def _classes(random, number):
    return random.integers(0, number, STEPS * BATCH)


@program(quick=False)
def functional():
    _seeded()
    inputs = layers.Input((8,))
    hidden = layers.Dense(8, "relu")(inputs)
    outputs = layers.Dense(1)(layers.Add()([inputs, hidden]))
    return _fit(tf.keras.Model(inputs, outputs), *arrays())


@program()
def subclassed():
    """Leave the making of weights to the first batch."""

    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = layers.Dense(16, "relu"), layers.Dense(1)

        def call(self, x, training=False):
            return self.head(self.hidden(x))

    _seeded()
    return _fit(Own(), *arrays())


@program(quick=False)
def convolutions():
    random = _seeded()
    network = tf.keras.Sequential([layers.Input((12, 12, 1)), layers.Conv2D(4, 3, activation="relu")])
    for layer in [layers.MaxPooling2D(), layers.Flatten(), layers.Dense(4)]:
        network.add(layer)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return _fit(network, random.random((STEPS * BATCH, 12, 12, 1), "float32"), _classes(random, 4), loss=loss)


@program()
def recurrent():
    random = _seeded()
    network = tf.keras.Sequential([layers.Input((6, 2)), layers.LSTM(8), layers.Dense(1)])
    return _fit(network, random.random((STEPS * BATCH, 6, 2), "float32"), arrays()[1])


@program(quick=False)
def recurrent_both_ways_with_masks():
    random = _seeded()
    network = tf.keras.Sequential([layers.Input((6,)), layers.Embedding(20, 4, mask_zero=True)])
    for layer in [layers.Bidirectional(layers.GRU(4, return_sequences=True)), layers.GRU(4), layers.Dense(1)]:
        network.add(layer)
    return _fit(network, random.integers(0, 20, (STEPS * BATCH, 6)), arrays()[1])


@program(quick=False)
def recurrent_with_state_between_batches():
    random = _seeded()
    network = tf.keras.Sequential([layers.Input(batch_shape=(BATCH, 3, 2)), layers.LSTM(4, stateful=True)])
    network.add(layers.Dense(1))
    return _fit(network, random.random((STEPS * BATCH, 3, 2), "float32"), arrays()[1])


@program()
def embeddings():
    """Users and items, whose gradients are rows of a table."""
    random = _seeded()
    user, item = layers.Input((), dtype="int32"), layers.Input((), dtype="int32")
    tables = [layers.Embedding(1000, 8)(user), layers.Embedding(500, 8)(item)]
    network = tf.keras.Model([user, item], layers.Dot(axes=1)(tables))
    ids = [random.integers(0, number, STEPS * BATCH).astype("int32") for number in (1000, 500)]
    return _fit(network, ids, arrays()[1], optimizer="adam")


@program(quick=False)
def attention():
    random = _seeded()
    inputs = layers.Input((6, 8))
    mixed = layers.MultiHeadAttention(2, 4)(inputs, inputs)
    normal = layers.LayerNormalization()(layers.Add()([inputs, mixed]))
    network = tf.keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(normal)))
    return _fit(network, random.random((STEPS * BATCH, 6, 8), "float32"), arrays()[1], optimizer="adam")


@program(quick=False)
def several_inputs_and_outputs():
    x, y = arrays()
    _seeded()
    left, right = layers.Input((4,), name="left"), layers.Input((4,), name="right")
    both = layers.Dense(8, "relu")(layers.Concatenate()([left, right]))
    network = tf.keras.Model([left, right], {"sum": layers.Dense(1, name="sum")(both), "big": layers.Dense(1)(both)})
    targets = {"sum": y, "big": (y > 4).astype("float32")}
    return _fit(
        network, [x[:, :4], x[:, 4:]], targets, loss={"sum": "mse", "big": "mae"}, loss_weights={"sum": 0.5, "big": 2.0}
    )


@program(quick=False)
def shared_layers():
    """Put both inputs through the same layers: a Siamese network."""
    x, y = arrays()
    _seeded()
    tower = tf.keras.Sequential([layers.Input((4,)), layers.Dense(8, "relu"), layers.Dense(4)])
    left, right = layers.Input((4,)), layers.Input((4,))
    network = tf.keras.Model([left, right], layers.Dense(1)(layers.Subtract()([tower(left), tower(right)])))
    return _fit(network, [x[:, :4], x[:, 4:]], y)


@program(quick=False)
def own_layers_and_losses():
    class Scaled(layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], 4), initializer="glorot_uniform", name="kernel")
            self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

        def call(self, x):
            self.seen.assign_add(1.0)
            self.add_loss(0.01 * tf.reduce_sum(self.kernel**2))
            return x @ self.kernel

    _seeded()
    network = tf.keras.Sequential([layers.Input((8,)), Scaled(), layers.Dense(1)])
    return _fit(network, *arrays(), loss=lambda true, made: tf.reduce_mean(tf.abs(true - made)))


@program()
def batch_normalization_and_dropout():
    _seeded()
    network = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16), layers.BatchNormalization()])
    for layer in [layers.ReLU(), layers.Dropout(0.3, seed=1), layers.GaussianNoise(0.1, seed=2), layers.Dense(1)]:
        network.add(layer)
    return _fit(network, *arrays(), epochs=2)


@program(quick=False)
def normalization_adapted_first():
    x, y = arrays()
    _seeded()
    normal = layers.Normalization()
    normal.adapt(x)
    return _fit(tf.keras.Sequential([layers.Input((8,)), normal, layers.Dense(1)]), x, y)


@program(quick=False)
def text_in_the_model():
    """Sentences as strings, split and looked up inside of the pipeline."""
    random = _seeded()
    words = np.array(["red", "green", "blue", "grey"])
    text = tf.constant([" ".join(words[row]) for row in random.integers(0, 4, (STEPS * BATCH, 5))])
    lookup = layers.TextVectorization(10, output_sequence_length=5)
    lookup.adapt(text)
    network = tf.keras.Sequential([layers.Input((5,)), layers.Embedding(10, 4), layers.Flatten(), layers.Dense(1)])
    network.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((text, arrays()[1])).batch(BATCH).map(lambda t, y: (lookup(t), y))
    return told(network.fit(data, verbose=0).history["loss"])


@program(quick=False)
def images_changed_at_random():
    random = _seeded()
    network = tf.keras.Sequential([layers.Input((8, 8, 1)), layers.RandomFlip(seed=1), layers.Rescaling(0.5)])
    for layer in [layers.Flatten(), layers.Dense(1)]:
        network.add(layer)
    return _fit(network, random.random((STEPS * BATCH, 8, 8, 1), "float32"), arrays()[1])


@program(quick=False)
def autoencoder_with_random_code():
    class Code(layers.Layer):
        def call(self, pair):
            mean, spread = pair
            self.add_loss(-0.5 * tf.reduce_mean(1 + spread - mean**2 - tf.exp(spread)))
            return mean + tf.exp(0.5 * spread) * tf.random.stateless_normal(tf.shape(mean), (1, 2))

    _seeded()
    inputs = layers.Input((8,))
    code = Code()([layers.Dense(2)(inputs), layers.Dense(2)(inputs)])
    x, _ = arrays()
    return _fit(tf.keras.Model(inputs, layers.Dense(8)(code)), x, x)


@program(quick=False)
def weights_shared_by_two_models():
    """Train a classifier and an autoencoder in turn, with one encoder."""
    x, y = arrays()
    _seeded()
    encoder = tf.keras.Sequential([layers.Input((8,)), layers.Dense(8, "relu")])
    heads = [tf.keras.Sequential([encoder, layers.Dense(8)]), tf.keras.Sequential([encoder, layers.Dense(1)])]
    losses = []
    for network, target in zip(heads, (x, y), strict=True):
        losses += _fit(network, x, target)["numbers"]
    return told(losses, 2 * STEPS)


@program(quick=False)
def residual_blocks_in_a_loop():
    _seeded()
    inputs = made = layers.Input((8,))
    for _ in range(12):
        made = layers.Add()([made, layers.Dense(8, "relu", kernel_regularizer="l2")(made)])
    network = tf.keras.Model(inputs, layers.Dense(1)(made))
    network.compile(tf.keras.optimizers.Adam(0.001), "mse")
    return told(network.fit(batches(), epochs=2, verbose=0).history["loss"], 2 * STEPS)


if __name__ == "__main__":
    main()
