"""MultiWorkerMirroredStrategy as books of 2020 spell it, with a TF_CONFIG that the script assigns."""

import json
import os

import numpy as np

os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": ["10.1.10.58:12345", "10.1.10.250:12345"]},
        "task": {"type": "worker", "index": 0},
    }
)

import tensorflow as tf

strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(
    communication=tf.distribute.experimental.CollectiveCommunication.RING
)
NUM_WORKERS = 2
GLOBAL_BATCH_SIZE = 32 * NUM_WORKERS


def make_datasets():
    random = np.random.default_rng(1)
    x = random.normal(size=(2048, 16)).astype("float32")
    y = x[:, :4].argmax(axis=1)
    return tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(2048, seed=1)


with strategy.scope():
    train_datasets = make_datasets().repeat().batch(GLOBAL_BATCH_SIZE)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    train_datasets = train_datasets.with_options(options)
    multi_worker_model = tf.keras.Sequential(
        [tf.keras.layers.Dense(64, activation="relu", input_shape=(16,)), tf.keras.layers.Dense(4)]
    )
    multi_worker_model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.2),
        metrics=["accuracy"],
    )
history = multi_worker_model.fit(x=train_datasets, epochs=3, steps_per_epoch=24, verbose=2)
print("final loss", history.history["loss"][-1])
