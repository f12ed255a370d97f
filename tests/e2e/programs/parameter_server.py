"""A program as people copy it: ParameterServerStrategy with a loop of schedule and join, or `fit` of tf_keras."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--loop", choices=("fit", "schedule", "by_hand"), default="schedule")
parser.add_argument("--steps", type=int, default=100, help="in each epoch")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--executions", type=int, default=1, help="of one function of `fit`")
parser.add_argument("--slow", type=float, default=0.0, help="seconds in each function of worker 1")
chosen = parser.parse_args()
if chosen.loop == "fit":
    os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf  # noqa: E402

WIDTH, DEPTH, BATCH, SHARDS = 64, 32, 16, 2

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(
    resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(SHARDS)
)


def dataset(_: object = None) -> tf.data.Dataset:
    examples = tf.random.stateless_normal((BATCH, WIDTH), (1, 2)), tf.zeros((BATCH, DEPTH))
    return tf.data.Dataset.from_tensors(examples).repeat()


def held(tensor: tf.Tensor, seconds: tf.Tensor) -> tf.Tensor:
    """The tensor, after a sleep of the process that executes this: numpy_function would sleep in the chief."""
    microseconds = tf.cast(seconds * 1e6, tf.int64)
    one = tf.data.Dataset.range(1)._variant_tensor
    asleep = tf.raw_ops.SleepDataset(
        input_dataset=one, sleep_microseconds=microseconds, output_types=[tf.int64], output_shapes=[[]]
    )
    slept = tf.raw_ops.DatasetCardinality(input_dataset=asleep)
    with tf.control_dependencies([slept]):
        return tf.identity(tensor)


def seconds() -> tf.Tensor:
    """How long this worker is to sleep."""
    worker = tf.distribute.coordinator.experimental_get_current_worker_index()
    return tf.where(worker == 1, chosen.slow, 0.0)
