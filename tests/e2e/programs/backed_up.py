"""Training of synchronous workers that goes on from its backup; each epoch is a line of the worker's file."""

import os
import sys
import time
from pathlib import Path

import tensorflow as tf

FOLDER, EPOCHS = Path(sys.argv[1]), int(sys.argv[2])


class Written(tf.keras.callbacks.Callback):
    """Callback that writes down which process has made which epoch, and takes its time."""

    def on_epoch_end(self, epoch: int, _logs: object = None) -> None:
        name = os.environ["TFSCALE_TASK"].replace(":", "-")
        with (FOLDER / f"{name}.epochs").open("a") as file:
            file.write(f"{os.getpid()} {epoch}\n")
        time.sleep(0.5)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensors((tf.ones((24, 8)), tf.zeros((24,), tf.int32))).repeat()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
backup = tf.keras.callbacks.BackupAndRestore(str(FOLDER / "backup"))
model.fit(data.with_options(options), epochs=EPOCHS, steps_per_epoch=5, callbacks=[backup, Written()], verbose=0)
