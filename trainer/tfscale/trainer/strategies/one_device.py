"""One device: no replicas and no reduction; the baseline of all other strategies.

For small models and first tries. `--device GPU:1` chooses another device than the first.
"""

from __future__ import annotations

import tensorflow as tf

REPLICAS = "one"
OPTIONS = {"device": "CPU:0 or GPU:1; default the first GPU, else the CPU"}
ROLES = {"worker": (None, 1, 1, 1)}


def create(device: str | None = None) -> tf.distribute.Strategy:
    """Return the strategy. Raises ValueError where the device is not there."""
    names = [":".join(each.name.split(":")[-2:]) for each in tf.config.list_logical_devices()]
    if device is None:
        device = "GPU:0" if "GPU:0" in names else "CPU:0"
    if device not in names:
        raise ValueError(f"--device {device}: this host has {', '.join(names)}")
    return tf.distribute.OneDeviceStrategy(device)
