"""Endless training of synchronous workers by a loop of its own; each writes down the time and CPU of its first step.

    restarted_program.py FOLDER

Without Keras, whose `fit` stock TensorFlow does not run on several workers (docs/reference/compat.md).
"""

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
FIRST_STEP = Path(sys.argv[1]) / f"worker-{INDEX}.{os.getpid()}"

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = tf.Variable(tf.zeros((32, 10)))
data = tf.data.Dataset.from_tensors(tf.ones((64, 32))).repeat()
batches = iter(strategy.experimental_distribute_dataset(data))


def step(batch: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(batch @ weights - 1.0))
    gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, weights))
    weights.assign_sub(0.01 * gradient)


@tf.function
def train(batch: tf.Tensor) -> None:
    strategy.run(step, (batch,))


train(next(batches))
written = FIRST_STEP.with_suffix(".new")
written.write_text(f"{time.time()} {time.process_time()}")
written.rename(FIRST_STEP)
while True:
    train(next(batches))
    time.sleep(0.01)
