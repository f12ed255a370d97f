"""Names of a strategy's devices: names of physical devices, and names of devices that this host does not have."""

from __future__ import annotations

import functools
import re
from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.listings.erratum import Erratum, note

_PHYSICAL = re.compile(r"/physical_device:(\w+):(\d+)")
_WAITS = "TensorFlow would wait for ever in the first reduction"


def repair_names(tensorflow: Any) -> None:
    """Take '/physical_device:GPU:0' for the device that TensorFlow calls '/device:GPU:0'.

    Stock (seen with 2.21.0) raises ValueError: unknown attribute 'physical_device'.
    """
    kind = tensorflow.DeviceSpec
    parse = kind._string_to_components

    def string_to_components(spec: Any = None) -> Any:
        return parse(_PHYSICAL.sub(_logical, spec) if isinstance(spec, str) else spec)

    kind._string_to_components = staticmethod(string_to_components)


def _logical(match: re.Match[str]) -> str:
    """Return the logical name of a physical device: logical names count only visible devices."""
    kind, index = match[1], int(match[2])
    visible = [device.name for device in tf.config.get_visible_devices(kind)]
    place = visible.index(match[0]) if match[0] in visible else index
    note(f"'{match[0]}' is taken for '/device:{kind}:{place}': write list_logical_devices, whose names are devices")
    return f"/device:{kind}:{place}"


def refuse_absent(tensorflow: Any) -> None:
    """Refuse a strategy with devices that this host lacks; stock TensorFlow waits for ever."""
    _check(tensorflow.distribute.MirroredStrategy, lambda devices=None, *_, **__: devices)
    _check(
        tensorflow.distribute.experimental.CentralStorageStrategy,
        lambda compute_devices=None, parameter_device=None: [*(compute_devices or ()), parameter_device or "CPU:0"],
    )


def _check(strategy: Any, devices_of: Any) -> None:
    make = strategy.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        devices = devices_of(*args, **kwargs)
        asked: list[str] = [*devices] if isinstance(devices, list | tuple) else []
        if absent := [name for name in asked if isinstance(name, str) and _is_absent(name)]:
            raise Erratum(_refusal(type(self).__name__, asked, absent))
        make(self, *args, **kwargs)

    strategy.__init__ = made


def _is_absent(name: str) -> bool:
    spec = tf.DeviceSpec.from_string(name)
    if spec.job not in (None, "localhost") or spec.device_type is None:
        return False
    index = spec.device_index or 0
    # Logical devices are asked for last: the question starts TensorFlow, after which options cannot be set.
    return index >= len(tf.config.get_visible_devices(spec.device_type)) and index >= len(
        tf.config.list_logical_devices(spec.device_type)
    )


def _refusal(strategy: str, asked: list[str], absent: list[str]) -> str:
    here = ", ".join(
        f"{device.device_type}:{device.name.rpartition(':')[2]}" for device in tf.config.list_logical_devices()
    )
    return (
        f"{strategy}: {', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not on this host, which has {here}; "
        f"{_WAITS}: name devices that are here, or leave the list of {len(asked)} out to train on all"
    )
