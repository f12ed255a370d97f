"""Trains without end on two workers, the second of which has twice the examples in each step."""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
WIDTH, BATCH = 512, 256 * (1 + index)


def dataset(_):
    examples = tf.random.stateless_normal((BATCH, WIDTH), (1, 2)), tf.zeros((BATCH, WIDTH))
    return tf.data.Dataset.from_tensors(examples).repeat()


with strategy.scope():
    weights = [tf.Variable(tf.random.stateless_normal((WIDTH, WIDTH), (3, 4)) / WIDTH) for _ in range(4)]
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(weights)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        for weight in weights:
            x = x @ weight
        loss = tf.reduce_mean((x - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


@tf.function
def step(x, y):
    strategy.run(replica_step, args=(x, y))


for x, y in strategy.distribute_datasets_from_function(dataset):
    step(x, y)
