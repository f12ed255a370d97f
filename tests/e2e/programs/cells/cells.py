"""Training of small models in one loop after another under one strategy, with real delays in one phase at a time.

    cells.py STRATEGY LOOP...

JSON lines on stdout say when each block ran, and what the loop hands to its reductions. Only the last worker is
delayed. TF_USE_LEGACY_KERAS selects tf_keras. `cell_loops.py` has the loops, `cell_blocks.py` the delays' timing.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

import tensorflow as tf
from cell_blocks import say
from cell_loops import LOOPS, Run
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

REPORTED = 0.7
"""Seconds after which the probe has reported the last steps."""


def make_strategy(name: str) -> Any:
    """Make the strategy of this name; None for `none`."""
    distribute = tf.distribute
    cpus = ["CPU:0", "CPU:1"]
    makers = {
        "none": lambda: None,
        "one_device": lambda: distribute.OneDeviceStrategy("CPU:0"),
        "mirrored": lambda: distribute.MirroredStrategy(cpus),
        "central_storage": lambda: distribute.experimental.CentralStorageStrategy(cpus, "CPU:0"),
        "multi_worker": ring,
        "multi_worker_replicas": ring,
    }
    return makers[name]()


def ring() -> Any:
    implementation = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def two_cpus(several_workers: bool) -> None:
    """Make two logical CPUs, which stand in for two GPUs; of CPUs, MultiWorkerMirrored would take one anyway."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    if several_workers:
        CollectiveAllReduceExtended._initialize_local_devices = lambda _, __, worker_device: (
            (f"{worker_device}/device:CPU:0", f"{worker_device}/device:CPU:1"),
            "CPU",
        )


def main(name: str, loops: list[str]) -> None:
    if os.environ.get("TF_USE_LEGACY_KERAS"):
        import tf_keras as keras
    else:
        import keras
    cluster = json.loads(os.environ.get("TF_CONFIG") or '{"cluster": {"worker": [""]}, "task": {"index": 0}}')
    workers = len(cluster["cluster"]["worker"])
    if name in ("mirrored", "central_storage", "multi_worker_replicas"):
        two_cpus(several_workers=name == "multi_worker_replicas")
    strategy = make_strategy(name)
    for loop in loops:
        run = Run(keras, strategy, lambda: make_strategy(name), loop, workers, cluster["task"]["index"])
        began = time.time()
        try:
            LOOPS[loop](run)
            time.sleep(REPORTED)
            say(loop=loop, began=began, done=time.time(), facts=run.facts())
        except Exception as error:
            traceback.print_exc()
            say(loop=loop, began=began, done=time.time(), error=f"{type(error).__name__}: {str(error)[:300]}")
        keras.backend.clear_session()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
