"""Strategies that a cluster allows: that of its tasks, or all that one host alone can have."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

CONFIGURATION = json.loads(os.environ["TF_CONFIG"])
TASK, CLUSTER = CONFIGURATION["task"], CONFIGURATION["cluster"]
IS_FIRST = TASK["type"] == "chief" or (TASK["index"] == 0 and "chief" not in CLUSTER)


def strategies() -> Iterator[tuple[str, Any]]:
    """Yield name and strategy; workers and servers of a parameter server's chief serve it, and never return."""
    if "ps" in CLUSTER:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if TASK["type"] != "chief":
            spec = resolver.cluster_spec()
            tf.distribute.Server(spec, job_name=TASK["type"], task_index=TASK["index"], protocol="grpc").join()
        yield "parameter-server", tf.distribute.ParameterServerStrategy(resolver)
    elif len(CLUSTER["worker"]) > 1:
        yield "multi-worker", tf.distribute.MultiWorkerMirroredStrategy()
    else:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
        devices = [f"CPU:{number}" for number in range(3)]
        yield "one-device", tf.distribute.OneDeviceStrategy("CPU:0")
        yield "mirrored", tf.distribute.MirroredStrategy(devices[:2])
        yield "mirrored, 3", tf.distribute.MirroredStrategy(devices)
        yield "central-storage", tf.distribute.experimental.CentralStorageStrategy(devices[:2])
