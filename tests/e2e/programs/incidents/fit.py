"""Training as people write it: Keras's `fit` on MultiWorkerMirroredStrategy, until it is ended."""

import os
from pathlib import Path

import accidents
import numpy as np
import tensorflow as tf

WIDTH = int(os.environ.get("WIDTH", "64"))
BATCH = int(os.environ.get("BATCH", "16"))
LAYERS = int(os.environ.get("LAYERS", "1"))
BURN = int(os.environ.get("BURN", "0"))
"""Products of each batch with a matrix, for a program that needs its cores."""
CHECKPOINTS = Path(os.environ.get("CHECKPOINTS", "checkpoints"))
strategy = tf.distribute.MultiWorkerMirroredStrategy()


def examples():
    while True:
        if accidents.in_input():
            return
        value = np.nan if accidents.ordered() == "not a number" else 1.0
        yield np.full((BATCH, WIDTH), value, np.float32), np.zeros((BATCH, WIDTH), np.float32)


def dataset(batches=-1):
    """Return batches of this worker; each of them is a step's."""
    shape = tf.TensorSpec((BATCH, WIDTH), tf.float32)
    read = tf.data.Dataset.from_generator(examples, output_signature=(shape, shape)).prefetch(2).take(batches)
    return strategy.distribute_datasets_from_function(lambda _: read)


class Asleep(tf.keras.layers.Layer):
    def call(self, inputs):
        return accidents.asleep(inputs)


class Burning(tf.keras.layers.Layer):
    def call(self, inputs):
        matrix = tf.ones((WIDTH, WIDTH)) / WIDTH
        for _ in range(BURN):
            inputs = inputs @ matrix
        return inputs


class Accidents(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, **_):
        accidents.after_step()
        match accidents.ordered():
            case "checkpoint":
                tf.train.Checkpoint(model=self.model).write(str(CHECKPOINTS / f"own-{batch}"))
            case "one file":
                self.model.save_weights(str(CHECKPOINTS / "all.weights.h5"))
            case "end of data":
                self.model.stop_training = True
            case "evaluation":
                self.model.evaluate(dataset(50), verbose=0)


with strategy.scope():
    layers = [tf.keras.layers.Dense(WIDTH, use_bias=False) for _ in range(LAYERS)]
    extra = [Burning()] if BURN else []
    model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), Asleep(), *extra, *layers])
    model.compile("sgd", "mse")
steps = int(os.environ.get("STEPS", "200"))
validation = {"validation_data": dataset(20), "validation_steps": 20} if os.environ.get("VALIDATION") else {}
model.fit(dataset(), epochs=10_000, steps_per_epoch=steps, verbose=0, callbacks=[Accidents()], **validation)
