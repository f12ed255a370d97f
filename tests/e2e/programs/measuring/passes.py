"""A training by hand on two workers, once for each of grappler's passes, of which worker 1 is delayed in each phase.

It prints a line for each pass that was switched: its name, and when its steps began and ended. The rate is a constant,
and the gradients come from a function of their own: passes make something else of both.
"""

import json
import os
import time

import numpy as np
import tensorflow as tf
from passes_constants import DELAYS, PASSES, STEPS

RATE = 0.01
is_delayed = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1


def pause(phase):
    if is_delayed:
        time.sleep(DELAYS[phase])


def delayed(phase, tensor):
    """Return the tensor, later."""

    def late(value):
        pause(phase)
        return value

    return tf.ensure_shape(tf.numpy_function(late, [tensor], tensor.dtype), tensor.shape)


def batches():
    while True:
        pause("input")
        yield np.ones((16, 64), np.float32)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = [tf.Variable(0.1 * tf.ones([64, 64])), tf.Variable(0.1 * tf.ones([64, 1]))]
options = tf.data.Options()
options.experimental_optimization.inject_prefetch = False
dataset = tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec((16, 64))).with_options(options)


@tf.function
def gradients(batch):
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(delayed("compute", batch) @ weights[0])
        loss = 0.5 * tf.reduce_mean((hidden @ weights[1]) ** 2)
    return tape.gradient(loss, weights)


def replica_step(batch):
    reduced = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients(batch))
    changes = [RATE * gradient for gradient in reduced]
    changes[0] = delayed("update", changes[0])
    for variable, change in zip(weights, changes, strict=True):
        variable.assign_sub(change)


iterator = iter(dataset)
for switched, chosen in PASSES.items():
    tf.config.optimizer.set_experimental_options(chosen)
    step = tf.function(lambda: strategy.run(replica_step, args=(next(iterator),)))
    step()
    began = time.time()
    for _ in range(STEPS):
        pause("host")
        step()
    print(json.dumps([switched, began, time.time()]), flush=True)
    tf.config.optimizer.set_experimental_options({name: not is_on for name, is_on in chosen.items()})
