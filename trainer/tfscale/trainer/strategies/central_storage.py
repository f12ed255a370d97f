"""Central storage: variables on one device, and a replica on each compute device of one host.

For models whose variables do not fit beside the activations. Each replica reads the variables from the parameter
device; gradients are summed on the CPU, and applied on the parameter device.
"""

from __future__ import annotations

import tensorflow as tf

REPLICAS = "one a compute device; without GPUs --replicas logical devices of the CPU"
OPTIONS = {
    "replicas": (1, 64),
    "compute_devices": "GPU:0,GPU:1; default all GPUs, else the CPU",
    "parameter_device": "CPU:0; default the CPU, or the only compute device",
}
ROLES = {"worker": (None, 1, 1, 1)}


def check_options(_keras: str, replicas: int | None = None, compute_devices: str | None = None, **_: str) -> None:
    """Raise ValueError where options contradict each other."""
    if replicas is not None and compute_devices is not None:
        raise ValueError("--replicas and --compute-devices: give one of them, since each device has one replica")
    if compute_devices is not None and len(set(compute_devices.split(","))) < len(compute_devices.split(",")):
        raise ValueError(f"--compute-devices {compute_devices}: names a device twice")


def create(
    replicas: int | None = None, compute_devices: str | None = None, parameter_device: str | None = None
) -> tf.distribute.Strategy:
    """Return the strategy. Raises ValueError where the devices are not there."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    if not gpus and compute_devices is None and (replicas or 1) > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * (replicas or 1))
    there = [":".join(each.name.split(":")[-2:]) for each in tf.config.list_logical_devices()]
    usable = [name for name in there if name.startswith("GPU" if gpus else "CPU")]
    compute = usable[:replicas] if compute_devices is None else compute_devices.split(",")
    _check("--compute-devices", compute, there)
    _check("--parameter-device", [] if parameter_device is None else [parameter_device], there)
    if replicas and len(compute) < replicas:
        raise ValueError(f"--replicas {replicas}: this host has {gpus} GPUs, and a GPU has one replica")
    return tf.distribute.experimental.CentralStorageStrategy(compute, parameter_device)


def _check(flag: str, chosen: list[str], there: list[str]) -> None:
    if missing := [name for name in chosen if name not in there]:
        raise ValueError(f"{flag}: {', '.join(missing)} not here, this host has {', '.join(there)}")
