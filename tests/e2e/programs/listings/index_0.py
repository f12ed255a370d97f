"""Two workers by a TF_CONFIG with index 0 on each of them."""

import json
import os

os.environ.clear()
os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": ["localhost:12345", "localhost:23456"]},
        "task": {"type": "worker", "index": 0},
    }
)

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


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
print("worker", strategy.cluster_resolver.task_id, "has trained")
