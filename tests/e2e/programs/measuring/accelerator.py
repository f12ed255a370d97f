"""Stamps beside a device whose kernels are queued. A second CPU stands for it, where the kernel that a stamp adds to
the queue is done 50 ms late, as behind others. Prints, for stamps that know of the device and for those that do not:
milliseconds from the begin to the stamp, and whether a kernel was added.
"""

import json
import time

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.rows import row_buffer

host = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * 2)
ACCELERATOR = "/job:localhost/replica:0/task:0/device:CPU:1"


def late(value: tf.Tensor) -> tf.Tensor:
    def wait(number: np.ndarray) -> np.ndarray:
        time.sleep(0.05)
        return np.abs(number)

    return tf.ensure_shape(tf.numpy_function(wait, [value], tf.float64), ())


row_buffer.tf.abs = late


def stamped(accelerators: list[str]) -> dict[str, float | list[str]]:
    stamps = row_buffer.RowBuffer(accelerators)

    @tf.function
    def step(inputs: tf.Tensor) -> tf.Tensor:
        begin = stamps.stamp([])
        with tf.device(ACCELERATOR):
            result = inputs * 2.0
        stamps.write(0, [begin, stamps.stamp([result])])
        return result

    inputs = tf.ones(4)
    began = time.perf_counter()
    assert step(inputs).numpy().tolist() == [2.0] * 4
    took = time.perf_counter() - began
    ((_, begin, end, *_),), _ = stamps.read()
    graph = step.get_concrete_function(inputs).graph
    queued = [op.device[-5:] for op in graph.get_operations() if "PyFunc" in op.type]
    return {"milliseconds": 1000 * (end - begin), "took": took, "queued": queued}


stamped([])
print(json.dumps({"without": stamped([]), "with": stamped([ACCELERATOR])}))
