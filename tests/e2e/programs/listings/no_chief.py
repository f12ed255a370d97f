"""Parameter servers and workers that all run this script; the cluster has no chief."""

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)


def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input(shape=(8,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(4),
        ]
    )
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


x = np.random.default_rng(1).normal(size=(256, 8)).astype("float32")
y = x[:, :4].argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

with strategy.scope():
    model = make_model()
history = model.fit(dataset.repeat(), epochs=3, steps_per_epoch=50)
print("final loss", history.history["loss"][-1])
