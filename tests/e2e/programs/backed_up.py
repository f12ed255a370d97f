"""Training of synchronous workers that goes on from its backup; each epoch is a line of the worker's file.

Its words: folder, number of epochs, seconds that each takes beside its steps (0.5). The weights are a file in the end.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

FOLDER, EPOCHS = Path(sys.argv[1]), int(sys.argv[2])
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 0.5
NAME = os.environ["TFSCALE_TASK"].replace(":", "-")


class Written(tf.keras.callbacks.Callback):
    """Callback that writes down which process has made which epoch, and takes its time."""

    def on_epoch_end(self, epoch: int, _logs: object = None) -> None:
        with (FOLDER / f"{NAME}.epochs").open("a") as file:
            file.write(f"{os.getpid()} {epoch}\n")
        time.sleep(SECONDS)


tf.keras.utils.set_random_seed(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensors((tf.ones((24, 8)), tf.zeros((24,), tf.int32))).repeat()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
backup = tf.keras.callbacks.BackupAndRestore(str(FOLDER / "backup"))
model.fit(data.with_options(options), epochs=EPOCHS, steps_per_epoch=5, callbacks=[backup, Written()], verbose=0)
np.save(FOLDER / f"{NAME}.npy", np.concatenate([weights.ravel() for weights in model.get_weights()]))
