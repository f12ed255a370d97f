"""Devices for a model that is spread over several devices: GPUs, or CPU devices in their place."""

from __future__ import annotations

import tensorflow as tf


def logical_devices(count: int) -> list[str]:
    """Return the names of `count` GPUs; on a host with fewer, of `count` CPU devices with one thread each.

    The CPUs share this host's cores and memory. Call it before TensorFlow has begun to run.
    """
    if len(tf.config.list_physical_devices("GPU")) >= count:
        return [device.name for device in tf.config.list_logical_devices("GPU")[:count]]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(count)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return [device.name for device in tf.config.list_logical_devices("CPU")]
