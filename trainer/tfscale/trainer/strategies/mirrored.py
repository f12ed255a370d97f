"""Mirrored: a copy of the model on each device of one host, gradients summed over all of them.

For several GPUs of one host. Where there is no GPU, `--replicas` logical devices of the CPU stand in for them: they
show how it works, and train no faster, because they share the cores.
"""

from __future__ import annotations

import tensorflow as tf

REPLICAS = "one a GPU; without GPUs --replicas logical devices of the CPU"
OPTIONS = {
    "replicas": (1, 64),
    "devices": "GPU:0,GPU:1, a subset of this host's; default all GPUs",
    "reduction": ("auto", "nccl", "hierarchical-copy", "one-device"),
}
ROLES = {"worker": (None, 1, 1, 1)}


def check_options(_keras: str, replicas: int | None = None, devices: str | None = None, **_: str) -> None:
    """Raise ValueError where options contradict each other."""
    if replicas is not None and devices is not None:
        raise ValueError("--replicas and --devices: give one of them, since each device has one replica")
    if devices is not None and len(set(devices.split(","))) < len(devices.split(",")):
        raise ValueError(f"--devices {devices}: names a device twice")


def create(replicas: int | None = None, devices: str | None = None, reduction: str = "auto") -> tf.distribute.Strategy:
    """Return the strategy. Raises ValueError where the devices, or NCCL, are not there.

    TensorFlow itself would only warn of devices that are not there, and then wait for ever in the first reduction.
    """
    gpus = len(tf.config.list_physical_devices("GPU"))
    if not gpus and devices is None and (replicas or 1) > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * (replicas or 1))
    there = [":".join(each.name.split(":")[-2:]) for each in tf.config.list_logical_devices()]
    usable = [name for name in there if name.startswith("GPU" if gpus else "CPU")]
    chosen = usable[:replicas] if devices is None else devices.split(",")
    if missing := [name for name in chosen if name not in there]:
        raise ValueError(f"--devices {devices}: {', '.join(missing)} not here, this host has {', '.join(there)}")
    if replicas and len(chosen) < replicas:
        raise ValueError(f"--replicas {replicas}: this host has {gpus} GPUs, and a GPU has one replica")
    return tf.distribute.MirroredStrategy(chosen, cross_device_ops=_cross_device_ops(reduction, chosen))


def _cross_device_ops(reduction: str, devices: list[str]) -> tf.distribute.CrossDeviceOps | None:
    """Return the object that sums the gradients; None lets TensorFlow choose: NCCL on GPUs, else one device."""
    if reduction == "nccl":
        if cpus := [name for name in devices if not name.startswith("GPU")]:
            raise ValueError(f"--reduction nccl: NCCL needs GPUs, and the replicas are on {', '.join(cpus)}")
        return tf.distribute.NcclAllReduce()
    if reduction == "hierarchical-copy":
        # It sums within two halves of the devices, then over both.
        if len(devices) < 2 or len(devices) % 2:
            raise ValueError(f"--reduction hierarchical-copy: needs an even number of replicas, not {len(devices)}")
        return tf.distribute.HierarchicalCopyAllReduce()
    return tf.distribute.ReductionToOneDevice() if reduction == "one-device" else None
