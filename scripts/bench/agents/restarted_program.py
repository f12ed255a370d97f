"""Endless training of synchronous workers, which write down when their first step has ended.

restarted_program.py FOLDER
"""

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
FIRST_STEP = Path(sys.argv[1]) / f"worker-{INDEX}.{os.getpid()}"


class FirstStep(tf.keras.callbacks.Callback):
    """Callback that writes down the Unix time of the end of the first step."""

    def on_train_batch_end(self, batch: int, _logs: object = None) -> None:
        if batch == 0:
            written = FIRST_STEP.with_suffix(".new")
            written.write_text(str(time.time()))
            written.rename(FIRST_STEP)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensors((tf.ones((64, 32)), tf.zeros((64,), tf.int32))).repeat()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
model.fit(data.with_options(options), steps_per_epoch=10**7, callbacks=[FirstStep()], verbose=0)
