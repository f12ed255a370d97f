"""Peak of the memory that TensorFlow's allocator has held on each GPU of this process."""

from __future__ import annotations

import tensorflow as tf

_DIGITS = 3
"""Digits that are told: a peak that creeps up would be news each second."""


def memory_peaks(gpus: int) -> tuple[int, ...]:
    """Return the bytes for each of so many logical GPUs; empty without one, and where TensorFlow does not count.

    Called once a second, after the first steps: one call into TensorFlow for each GPU, which waits for no kernel. The
    counter of a CPU is not asked: TensorFlow 2.21 has one, which stays 0 for a model of small tensors.
    """
    try:
        peaks = [tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"] for index in range(gpus)]
    except Exception:  # the allocator of this device does not count
        return ()
    return tuple(_rounded_up(peak) for peak in peaks)


def _rounded_up(value: int) -> int:
    grain = int(10 ** max(0, len(str(value)) - _DIGITS))
    return -(-value // grain) * grain
