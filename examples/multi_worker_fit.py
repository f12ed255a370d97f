"""MultiWorkerMirroredStrategy: `fit` with checkpoints and a backup, as in TensorFlow's multi-worker tutorial."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]
num_workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
print("task", task, "replicas", strategy.num_replicas_in_sync)

random = np.random.default_rng(1)
x = random.normal(size=(2048, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)
global_batch_size = 32 * num_workers
train = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536, seed=1).repeat().batch(global_batch_size)
test = tf.data.Dataset.from_tensor_slices((x[1536:], y[1536:])).batch(global_batch_size)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

# Every worker saves, all but the chief to a place that is thrown away.
with tempfile.TemporaryDirectory() as folder:
    own = Path(folder) / f"worker-{task['index']}"
    callbacks = [
        tf.keras.callbacks.ModelCheckpoint(str(own / "{epoch}.weights.h5"), save_weights_only=True),
        tf.keras.callbacks.BackupAndRestore(str(own / "backup")),
        tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)),
    ]
    history = model.fit(train, epochs=3, steps_per_epoch=24, validation_data=test, callbacks=callbacks, verbose=2)
    print("checkpoints", sorted(path.name for path in own.glob("*.h5")))
print("validation accuracy", history.history["val_accuracy"][-1])
print("final loss", history.history["loss"][-1])
