"""Memory of GPUs: growth and limits, on devices that are not there."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tfscale.trainer.techniques import memory

pytestmark = pytest.mark.tensorflow

GPUS = [tf.config.PhysicalDevice(f"/physical_device:GPU:{number}", "GPU") for number in range(2)]


class FakeConfig:
    """Configuration of a host with two GPUs, as `tf.config` has it."""

    LogicalDeviceConfiguration = tf.config.LogicalDeviceConfiguration

    def __init__(self, gpus: list[Any]) -> None:
        self.gpus = gpus
        self.growth: dict[str, bool] = {}
        self.limits: dict[str, list[float]] = {}
        self.experimental = self

    def list_physical_devices(self, kind: str) -> list[Any]:
        return self.gpus if kind == "GPU" else []

    def set_memory_growth(self, device: Any, enable: bool) -> None:
        self.growth[device.name] = enable

    def set_logical_device_configuration(self, device: Any, logical: list[Any]) -> None:
        self.limits[device.name] = [each.memory_limit for each in logical]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeConfig:
    fake = FakeConfig(GPUS)
    monkeypatch.setattr(memory.tf, "config", fake)
    return fake


def test_the_memory_of_each_gpu_grows(host: FakeConfig) -> None:
    memory.prepare(memory.parse("growth"), None)
    assert host.growth == {"/physical_device:GPU:0": True, "/physical_device:GPU:1": True}
    assert host.limits == {}


def test_each_gpu_has_the_limit(host: FakeConfig) -> None:
    memory.prepare(memory.parse("4096"), None)
    assert host.limits == {"/physical_device:GPU:0": [4096], "/physical_device:GPU:1": [4096]}
    assert host.growth == {}


def test_it_is_refused_without_a_gpu(host: FakeConfig) -> None:
    host.gpus = []
    with pytest.raises(ValueError, match="there is no GPU here"):
        memory.prepare(None, None)


@pytest.mark.parametrize("text", ["", "0", "4GiB", "shrink"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write growth, or a limit in MiB"):
        memory.parse(text)
