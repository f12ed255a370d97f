"""Memory of GPUs that several tasks share: it grows with the need, or each task is limited to a number of MiB.

TensorFlow otherwise takes all memory of all GPUs that it sees, so that a second task on the host finds none. Memory
that has grown is not given back; a limit is kept even if the other tasks need less.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tfscale.trainer.launch.program_flags import MOST

VALUES = "growth, or a limit in MiB for each GPU"
REFUSED = {"tpu": "a TPU's memory belongs to one task"}


def parse(text: str) -> int | None:
    """Return the limit in MiB, None for growth. Raises ValueError."""
    if text == "growth":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("write growth, or a limit in MiB for each GPU, such as 4096")
    if int(text) > MOST:
        raise ValueError(f"a limit is at most {MOST} MiB")
    return int(text)


def prepare(limit: int | None, _keras: Any) -> None:
    """Set the limit for all GPUs of this process, not used yet. Raises ValueError where there is no GPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise ValueError("there is no GPU here, and TensorFlow takes the CPU's memory as it needs it; leave it out")
    for gpu in gpus:
        if limit is None:
            tf.config.experimental.set_memory_growth(gpu, True)
        else:
            tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)])
