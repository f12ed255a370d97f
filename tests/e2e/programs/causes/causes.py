"""Endless training on two workers; argument: the fault of the second one, or `large` for gradients of 14.7 MB.

causes.py plain|uneven|large|stuck|nan|lost|fit

`nan` is a batch of NaN that ends the process, `lost` one after which it goes on, `fit` one that ends a `fit` of Keras.
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

what = sys.argv[1]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
faulty = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1
width, batch = (960, 8) if what == "large" else (512, 256)
own = 2 * batch if what == "uneven" and faulty else batch
AT = 60
"""Number of the faulty batch."""


def fault(number):
    if number == AT and faulty and what == "stuck":
        time.sleep(600)
    return np.float32("nan" if number == AT and faulty and what in ("nan", "lost", "fit") else 1)


def dataset(_):
    examples = tf.random.stateless_normal((own, width), (1, 2)), tf.zeros((own, width))
    batches = tf.data.Dataset.from_tensors(examples).repeat().enumerate()

    def faulty_batch(number, pair):
        factor = tf.ensure_shape(tf.numpy_function(fault, [number], tf.float32), ())
        return pair[0] * factor, pair[1]

    return batches.map(faulty_batch)


if what == "fit":
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(width, name="dense")])
        model.compile("sgd", "mse")
    one = strategy.distribute_datasets_from_function(dataset)
    model.fit(one, steps_per_epoch=1000, verbose=0, callbacks=[tf.keras.callbacks.TerminateOnNaN()])
    sys.exit()

with strategy.scope():
    initial = tf.random.stateless_normal((width, width), (3, 4)) / width
    weights = [tf.Variable(initial, name=f"weights_{each}") for each in range(4)]
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(weights)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        for weight in weights:
            x = tf.ensure_shape(x, (own, width)) @ weight
        loss = tf.reduce_mean((x - y) ** 2)
        if what != "lost":
            loss = tf.debugging.check_numerics(loss, "the loss")
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


@tf.function
def step(x, y):
    strategy.run(replica_step, args=(x, y))


for x, y in strategy.distribute_datasets_from_function(dataset):
    step(x, y)
