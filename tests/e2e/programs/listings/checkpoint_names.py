# ruff: noqa: PTH103, PTH118
"""Saves weights after each epoch, and goes on from the newest."""

import os

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()


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

checkpoint_dir = "./training_checkpoints"
os.makedirs(checkpoint_dir, exist_ok=True)
checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt_{epoch}")
callbacks = [tf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True)]
with strategy.scope():
    model = make_model()
model.fit(dataset, epochs=2, callbacks=callbacks)
trained = model.evaluate(dataset)

with strategy.scope():
    again = make_model()
again.load_weights(tf.train.latest_checkpoint(checkpoint_dir))
print("same loss", abs(again.evaluate(dataset) - trained) < 1e-5)
