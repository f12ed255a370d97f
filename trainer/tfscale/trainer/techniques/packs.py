"""Packs: gradients are reduced in several collectives of about `value` bytes, where TensorFlow packs all into one.

A pack is reduced as soon as its gradients are known, so that reductions run beside the rest of the backward pass; each
collective costs its latency. On slow hosts or networks of high latency one pack is best.
"""

from __future__ import annotations

from typing import Any

from tfscale.trainer.launch.program_flags import MOST

VALUES = "bytes of a pack, such as 65536 or 4MiB"
REFUSED = {
    "one-device": "it has no all-reduce",
    "mirrored": "it takes no options of communication; --reduction chooses how its devices sum",
    "central-storage": "its gradients are summed on the parameter device, without an all-reduce",
    "parameter-server": "each worker pushes its gradients to the servers, without an all-reduce",
    "tpu": "XLA combines its reductions by itself",
}

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


def parse(text: str) -> int:
    """Return the bytes of a pack. Raises ValueError."""
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    number = text.removesuffix(unit)
    if not number.isdecimal() or int(number) < 1:
        raise ValueError("write the bytes of a pack: 65536, 64KiB or 4MiB")
    size = int(number) * _UNITS.get(unit, 1)
    if size > MOST:
        raise ValueError(f"a pack has at most {MOST} bytes")
    return size


def strategy_options(size: int) -> dict[str, Any]:
    """Return the option that the strategy hands to `tf.distribute.experimental.CommunicationOptions`."""
    return {"bytes_per_pack": size}
