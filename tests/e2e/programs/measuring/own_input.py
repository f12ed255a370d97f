"""Training on two workers that bring their batches themselves, of which worker 1 takes 50 ms for each.

own_input.py function|run|eager|on_batch|accumulation STEPS
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

loop, steps = sys.argv[1], int(sys.argv[2])
is_slow = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1
strategy = tf.distribute.MultiWorkerMirroredStrategy()

import keras  # noqa: E402

with strategy.scope():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.01)
    sums = [tf.Variable(tf.zeros(weight.shape), trainable=False) for weight in model.weights]
    if loop == "on_batch":
        model.compile(optimizer, "mse")


def batches():
    for _ in range(steps):
        time.sleep(0.05 * is_slow)
        yield np.ones((16, 64), np.float32), np.ones((16, 1), np.float32)


def gradients(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    return tape.gradient(loss, model.trainable_variables)


def replica_step(x, y):
    optimizer.apply_gradients(zip(gradients(x, y), model.trainable_variables, strict=True))


def add(x, y):
    for total, gradient in zip(sums, gradients(x, y), strict=True):
        total.assign_add(gradient)


def apply():
    optimizer.apply_gradients(zip(map(tf.identity, sums), model.trainable_variables, strict=True))


def train(batch, number):
    if loop == "on_batch":
        model.train_on_batch(*batch)
    elif loop == "accumulation":
        micro_step(*batch)
        if number % 2:
            update()
    elif loop == "function":
        step(*batch)
    else:
        strategy.run(replica_step if loop == "eager" else traced, args=batch)


step = tf.function(lambda x, y: strategy.run(replica_step, args=(x, y)))
micro_step = tf.function(lambda x, y: strategy.run(add, args=(x, y)))
update = tf.function(lambda: strategy.run(apply))
traced = tf.function(replica_step)
for number, batch in enumerate(batches()):
    train(batch, number)
