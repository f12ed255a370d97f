"""Train two workers that do not do the same: HOW.

`fewer` has fewer batches on worker 1, which leaves with 0; in `fit`, with Keras's own loop, it reduces metrics at its
end, where the other reduces gradients. Worker 0 alone evaluates after some steps: `alone` in a loop of its own,
`evaluate` with Keras.
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

HOW, INDEX = sys.argv[1], json.loads(os.environ["TF_CONFIG"])["task"]["index"]
STEPS = 60 if HOW in ("fewer", "fit") and INDEX else 400
keras = tf.keras
strategy = tf.distribute.MultiWorkerMirroredStrategy()


def batches(_=None):
    x = np.ones((8, 4), np.float32)
    return tf.data.Dataset.from_tensors((x, x.sum(axis=1, keepdims=True))).repeat(STEPS)


with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    optimizer = keras.optimizers.SGD(0.01)


@tf.function
def step(iterator):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2) / strategy.num_replicas_in_sync
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return strategy.run(replica, args=next(iterator))


@tf.function
def evaluated(iterator):
    def replica(x, y):
        return tf.reduce_mean((model(x) - y) ** 2)

    return strategy.reduce("MEAN", strategy.run(replica, args=next(iterator)), axis=None)


class Pause(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
        time.sleep(0.05)


data = strategy.distribute_datasets_from_function(batches)
if HOW == "fit":
    model.fit(data, epochs=1, verbose=0, callbacks=[Pause()])
elif HOW == "evaluate":
    model.fit(data, epochs=1, steps_per_epoch=60, verbose=0, callbacks=[Pause()])
    if INDEX == 0:
        model.evaluate(data, steps=5, verbose=0)
    model.fit(data, epochs=1, steps_per_epoch=60, verbose=0, callbacks=[Pause()])
else:
    iterator = iter(data)
    for number in range(STEPS):
        step(iterator)
        time.sleep(0.05)
        if HOW == "alone" and INDEX == 0 and number == 60:
            evaluated(iterator)
print("ended", INDEX)
