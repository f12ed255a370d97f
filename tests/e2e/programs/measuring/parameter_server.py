"""A program as people copy it: ParameterServerStrategy, with `fit` of tf_keras or a loop of schedule and join."""

import argparse
import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("loop", choices=("fit", "schedule"))
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--slow", type=float, default=0.0, help="seconds that each step of worker 1 sleeps")
chosen = parser.parse_args()

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()
    sys.exit("a server's join never returns")

keras = tf.keras
strategy = tf.distribute.ParameterServerStrategy(
    resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def asleep(tensor):
    """Return the tensor after a sleep of the worker: a numpy_function would hold up the chief."""
    worker = tf.distribute.coordinator.experimental_get_current_worker_index()
    # The data set is asked twice, for its element and for its end.
    microseconds = tf.where(worker == 1, tf.constant(int(chosen.slow * 5e5), tf.int64), tf.constant(0, tf.int64))
    slow = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.Dataset.range(1)._variant_tensor,
        sleep_microseconds=microseconds,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    woken = tf.raw_ops.DatasetToSingleElement(dataset=slow, output_types=[tf.int64], output_shapes=[[]])
    with tf.control_dependencies(woken):
        return tf.identity(tensor)


class Asleep(keras.layers.Layer):
    def call(self, inputs):
        return asleep(inputs) if chosen.slow else inputs


def dataset(_=None):
    examples = tf.random.stateless_normal((16, 64), (1, 2)), tf.zeros((16, 32))
    return tf.data.Dataset.from_tensors(examples).repeat()


with strategy.scope():
    model = keras.Sequential([keras.Input((64,)), Asleep(), keras.layers.Dense(32, use_bias=False)])
    optimizer = keras.optimizers.SGD(0.1)
    if chosen.loop == "fit":
        model.compile(optimizer, "mse", steps_per_execution=2)
    else:
        optimizer.build(model.trainable_variables)


def fit():
    data = keras.utils.experimental.DatasetCreator(dataset)
    history = model.fit(data, epochs=2, steps_per_epoch=chosen.steps // 2, verbose=0)
    return history.history["loss"]


@tf.function
def step(iterator):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return strategy.run(replica, args=next(iterator))


def schedule():
    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    losses = []
    for _ in range(2):
        for _ in range(chosen.steps // 2):
            loss = coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        losses.append(float(loss.fetch()))
    return losses


losses = fit() if chosen.loop == "fit" else schedule()
assert losses[-1] < losses[0], losses
print("trained", int(optimizer.iterations.numpy()), "steps")
