"""Mirrors over the names of all physical devices."""

import numpy as np
import tensorflow as tf

devices = [device.name for device in tf.config.list_physical_devices("CPU")]
strategy = tf.distribute.MirroredStrategy(devices=devices)
print("Number of devices:", strategy.num_replicas_in_sync)


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
model.fit(dataset, epochs=2)
