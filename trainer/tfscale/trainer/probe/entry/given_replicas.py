"""Devices for `tfscale-agent --replicas N`: the script is the same, and MirroredStrategy() finds N of them."""

from __future__ import annotations

from typing import Any

from tfscale.trainer.compat.listings.erratum import explain
from tfscale.trainer.probe.process.agent_variables import agent_variable

_REFUSED = 2


def make_devices(tensorflow: Any) -> None:
    """Leave N GPUs visible, or make N logical devices of the CPU where there is no GPU.

    They are made before the script says anything to TensorFlow, so that what it says itself holds. Ends the process
    where the devices cannot be had, with one line.
    """
    number = int(agent_variable("TFSCALE_DEVICES") or 1)
    if number == 1:
        return
    config = tensorflow.config
    gpus = config.list_physical_devices("GPU")
    if not gpus:
        cpu = config.list_physical_devices("CPU")[0]
        config.set_logical_device_configuration(cpu, [config.LogicalDeviceConfiguration()] * number)
    elif number <= len(gpus):
        config.set_visible_devices(gpus[:number], "GPU")
    else:
        explain(f"--replicas {number}: this host has {len(gpus)} GPUs, each with one replica; leave it out for all")
        raise SystemExit(_REFUSED)
