"""A training program with a real delay of DELAY seconds in one phase at a time, in blocks of BLOCK steps.

    phases.py fit|fit8|custom

Blocks follow the order of PHASES, each after a gap, from step WARM_UP on. Only worker 1 is delayed.
TF_USE_LEGACY_KERAS selects tf_keras.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
from phases_constants import BLOCK, DELAY, GAP, PHASES, STEPS, WARM_UP
from tfscale.trainer.slow.delay import Delay
from tfscale.trainer.slow.delays import Delays

BATCH, WIDTH = 64, 512


class Schedule:
    """Schedule of the delays: the phase to be delayed now."""

    def __init__(self, per_execution):
        self.step = 0
        self.per_execution = per_execution
        self.delayed = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1

    def due(self, phase):
        block, within = divmod(self.step - WARM_UP, GAP + BLOCK)
        now = PHASES[block] if 0 <= block < len(PHASES) and within >= GAP // 2 else None
        if not self.delayed or now != phase:
            return None
        # Python passes once an execution of several steps: their delays come together.
        return Delay(phase, DELAY * (self.per_execution if phase == "host" else 1))

    def count(self, inputs):
        self.step += 1
        return inputs


def dataset():
    random = np.random.RandomState(0)
    x = random.randn(BATCH, 64).astype("float32")
    y = (x.sum(1) > 0).astype("int64")
    return tf.data.Dataset.from_tensors((x, y)).repeat(STEPS + 8)


def counting_layer(keras, schedule):
    class Count(keras.layers.Layer):
        def call(self, inputs):
            return tf.ensure_shape(tf.numpy_function(schedule.count, [inputs], inputs.dtype), inputs.shape)

        def compute_output_shape(self, input_shape):
            return input_shape

    return Count()


def main(loop):
    if os.environ.get("TF_USE_LEGACY_KERAS"):
        import tf_keras as keras
    else:
        import keras
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    schedule = Schedule(per_execution=8 if loop == "fit8" else 1)
    delays = Delays(keras, schedule.due, looped=schedule.per_execution > 1)
    dense = keras.layers.Dense
    with strategy.scope():
        layers = [dense(WIDTH, activation="relu"), dense(WIDTH, activation="relu"), dense(10)]
        model = keras.Sequential([keras.Input((64,)), counting_layer(keras, schedule), *layers])
        optimizer = delays.optimizer(keras.optimizers.SGD, 0.01)
        reduction = "none" if loop == "custom" else "sum_over_batch_size"
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
        if loop != "custom":
            model.compile(optimizer, loss, steps_per_execution=schedule.per_execution)
    batches = strategy.distribute_datasets_from_function(lambda _: delays.input(dataset()))
    if loop == "custom":
        train(strategy, model, optimizer, loss, batches, delays)
    else:
        model.fit(batches, steps_per_epoch=STEPS, verbose=2, callbacks=[delays.callback()])


def train(strategy, model, optimizer, loss, batches, delays):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            value = tf.nn.compute_average_loss(loss(y, model(x, training=True)), global_batch_size=2 * BATCH)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    @tf.function
    def step(x, y):
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    iterator = iter(batches)
    for _ in range(STEPS):
        delays.ask()
        value = step(*next(iterator))
        delays.pause("host")
    print("loss", float(value))


if __name__ == "__main__":
    main(sys.argv[1])
