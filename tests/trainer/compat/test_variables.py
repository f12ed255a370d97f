"""Variables of Keras 3 that are elsewhere than the replicas: additions to them, and lookups in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import loopback
import pytest
from compat_run import repairs
from local_cluster import ENVIRONMENT

pytestmark = pytest.mark.tensorflow

HARNESS = Path(loopback.__file__).parent

ADDITIONS = """
import json
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
labels = np.arange(256, dtype=np.float32).reshape(-1, 1)
data = tf.data.Dataset.from_tensor_slices((np.zeros((256, 1), np.float32), labels)).batch(32)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse", metrics=["mae"])
model.optimizer.learning_rate = 0.0
history = model.fit(data, verbose=0).history
print(json.dumps([history["mae"][0], int(model.optimizer.iterations)]))
"""

ROWS, WIDTH = 50_000, 32
TABLE = 4 * ROWS * WIDTH
LOOKUPS = f"""
import itertools
import json
import os
import numpy as np
import psutil
import tensorflow as tf
from loopback import free_addresses

def moved():
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent

worker, server = free_addresses(2)
cluster = {{"worker": [worker], "ps": [server]}}
served = [tf.distribute.Server(cluster, job_name=role, task_index=0, protocol="grpc") for role in cluster]
strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
)
tf.keras.mixed_precision.set_global_policy(os.environ["POLICY"])
with strategy.scope():
    table = tf.keras.layers.Embedding({ROWS}, {WIDTH}, embeddings_initializer="ones")
    layers = [tf.keras.Input((2,), dtype="int32"), table, tf.keras.layers.Flatten()]
    last = tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")
    model = tf.keras.Sequential([*layers, last])
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
rows = np.arange(64, dtype=np.int32).reshape(-1, 2)

@tf.function
def step(batches):
    def of_worker(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    strategy.run(of_worker, args=(next(batches),))

def data():
    return tf.data.Dataset.from_tensor_slices(rows).batch(8, drop_remainder=True).repeat()

coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
batches = iter(coordinator.create_per_worker_dataset(data))
for steps in (4, 20):
    bytes_before = moved()
    for _ in range(steps):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
fitted = moved() - bytes_before
tf.function(model)(rows)
called = moved() - bytes_before - fitted
changed = (table.embeddings.numpy() != 1).any(axis=1)
print(json.dumps([fitted / 20, called, changed.nonzero()[0].tolist()]))
os._exit(0)  # the servers of this process never end
"""


def found(script: str, variables: dict[str, str]) -> Any:
    path = {"PYTHONPATH": os.pathsep.join([variables.get("PYTHONPATH", ""), str(HARNESS)])}
    environment = {**os.environ, **ENVIRONMENT, **variables, **path}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_repaired_keras_counts_each_example_once() -> None:
    """The labels are 0 to 255 and every prediction is 0, so that their mean is the mean absolute error."""
    mean, iterations = found(ADDITIONS, repairs())
    assert mean == pytest.approx(127.5) and iterations == 8


def test_stock_keras_doubles_what_it_has_counted_in_each_step() -> None:
    mean, *_ = found(ADDITIONS, {})
    assert mean != pytest.approx(127.5, rel=0.1), "upstream has mended it, and the repair goes"


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_repaired_keras_moves_the_rows_of_a_table_on_a_server_and_trains_them(policy: str) -> None:
    """A step uses 2 kB of rows; with TensorFlow's own messages it moved 25 kB, and the table has 6.4 MB."""
    of_a_step, of_chief, changed = found(LOOKUPS, {**repairs(), "POLICY": policy})
    assert of_a_step < TABLE / 50 and of_chief < TABLE / 10
    assert changed == list(range(64))


@pytest.mark.slow
def test_stock_keras_moves_a_table_on_a_server_to_the_worker_in_each_step() -> None:
    of_a_step, *_ = found(LOOKUPS, {"POLICY": "float32"})
    assert of_a_step > TABLE, "upstream has mended it, and the repair goes"
