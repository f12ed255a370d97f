"""A script as people copy it: Keras's `fit` under MultiWorkerMirroredStrategy, with nothing of tfscale in it."""

import json
import os

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.SGD(0.05),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

random = np.random.RandomState(0)
x = random.randn(6400, 32).astype("float32")
y = x[:, :10].argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(64)
held_out = tf.data.Dataset.from_tensor_slices((x, y)).take(640).batch(64)
history = model.fit(dataset, epochs=3, steps_per_epoch=100, validation_data=held_out, verbose=2).history
assert history["loss"][-1] < history["loss"][0]
print("logged", json.dumps({name: float(values[-1]) for name, values in history.items()}))
print("trained as", os.environ["TF_CONFIG"])
