"""Additions of Keras 3 to variables that are elsewhere than the replicas: under CentralStorageStrategy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from compat_run import repairs
from local_cluster import ENVIRONMENT

pytestmark = pytest.mark.tensorflow

SCRIPT = """
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


def found(variables: dict[str, str]) -> Any:
    environment = {**os.environ, **ENVIRONMENT, **variables}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_repaired_keras_counts_each_example_once() -> None:
    """The labels are 0 to 255 and every prediction is 0, so that their mean is the mean absolute error."""
    mean, iterations = found(repairs())
    assert mean == pytest.approx(127.5) and iterations == 8


def test_stock_keras_doubles_what_it_has_counted_in_each_step() -> None:
    mean, *_ = found({})
    assert mean != pytest.approx(127.5, rel=0.1), "upstream has mended it, and the repair goes"
