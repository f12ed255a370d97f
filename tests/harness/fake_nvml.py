"""Fake of pynvml, with GPUs whose counters a test sets."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.core.records.host_sample import GpuSample


class NVMLError(Exception):
    """Error as pynvml raises it: the driver is absent, or this GPU does not support a function."""


@dataclass
class FakeGpu:
    """One GPU, in NVML's units: percent, bytes, milliwatts, millijoules, degrees Celsius, megahertz."""

    name: str = "Fake H100"
    utilisation: int = 87
    memory_utilisation: int = 41
    memory_used: int = 20 << 30
    memory_total: int = 80 << 30
    power: int = 350_000
    power_limit: int = 700_000
    energy: int = 7_200_000_000
    """Millijoules since the driver was loaded."""
    temperature: int = 61
    clock: int = 1755
    clock_max: int = 1980
    reasons: int = 0x4
    ecc_errors: int = 0
    xids: list[int] = field(default_factory=list)
    """Errors of the driver that have not been collected yet."""
    pcie: tuple[int, int] = (310_000, 2_100_000)
    """Kilobytes a second sent and received."""
    pcie_wait: float = 0.0
    """Seconds that the driver counts them, 0.02 in truth."""
    nvlinks: list[bool] = field(default_factory=list)
    """True for each of its links that is up."""
    nvlink_errors: int = 0
    """Value of each counter of each link."""
    peers: dict[int, int] = field(default_factory=dict)
    """Level at which each other GPU is met, by its index; -1: NVLink."""
    unknown: frozenset[str] = field(default_factory=frozenset)
    """Fields that this GPU does not support."""


class FakeNvml:
    """Functions of pynvml that the collector calls. With `driver=False` the host has no driver."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_PCIE_UTIL_TX_BYTES = 0
    NVML_PCIE_UTIL_RX_BYTES = 1
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_ERROR_DL_REPLAY = 0
    NVML_NVLINK_ERROR_DL_RECOVERY = 1
    NVML_NVLINK_ERROR_DL_CRC_FLIT = 2
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, *gpus: FakeGpu, driver: bool = True) -> None:
        self.gpus = list(gpus)
        self.driver = driver
        self.shut = False

    def nvmlInit(self) -> None:
        if not self.driver:
            raise NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:
        self.shut = True

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return f"GPU-fake-{self.gpus.index(gpu)}"

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._known(gpu, "utilisation"), memory=gpu.memory_utilisation)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(used=self._known(gpu, "memory_used"), total=gpu.memory_total)

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        return self._known(gpu, "power")

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu) -> int:
        return self._known(gpu, "energy")

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        return self._known(gpu, "power_limit")

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, _sensor: int) -> int:
        return self._known(gpu, "temperature")

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, _clock: int) -> int:
        return self._known(gpu, "clock")

    def nvmlDeviceGetMaxClockInfo(self, gpu: FakeGpu, _clock: int) -> int:
        return self._known(gpu, "clock_max")

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu) -> int:
        return self._known(gpu, "reasons")

    def nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, _kind: int, _counter: int) -> int:
        return self._known(gpu, "ecc_errors")

    def nvmlDeviceGetPcieThroughput(self, gpu: FakeGpu, direction: int) -> int:
        self._known(gpu, "pcie")
        time.sleep(gpu.pcie_wait)
        return gpu.pcie[direction]

    def nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:
        if link >= len(gpu.nvlinks):
            raise NVMLError("Invalid Argument")
        return int(gpu.nvlinks[link])

    def nvmlDeviceGetNvLinkErrorCounter(self, gpu: FakeGpu, _link: int, _counter: int) -> int:
        return self._known(gpu, "nvlink_errors")

    def nvmlDeviceGetP2PStatus(self, gpu: FakeGpu, other: FakeGpu, _capability: int) -> int:
        return 0 if self._level(gpu, other) == -1 else 5

    def nvmlDeviceGetTopologyCommonAncestor(self, gpu: FakeGpu, other: FakeGpu) -> int:
        return self._level(gpu, other)

    def _level(self, gpu: FakeGpu, other: FakeGpu) -> int:
        index = next(index for index, each in enumerate(self.gpus) if each is other)
        if index not in gpu.peers:
            raise NVMLError("Not Supported")
        return gpu.peers[index]

    def nvmlEventSetCreate(self) -> list[FakeGpu]:
        return []

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, _kinds: int, events: list[FakeGpu]) -> None:
        self._known(gpu, "xids")
        events.append(gpu)

    def nvmlEventSetWait_v2(self, events: list[FakeGpu], _milliseconds: int) -> SimpleNamespace:
        for gpu in events:
            if gpu.xids:
                return SimpleNamespace(device=gpu, eventType=8, eventData=gpu.xids.pop(0))
        raise NVMLError("Timeout")

    def _known(self, gpu: FakeGpu, name: str) -> Any:
        if name in gpu.unknown:
            raise NVMLError("Not Supported")
        return getattr(gpu, name)


def samples_of(collector: GpuCollector) -> tuple[GpuSample, ...]:
    """Wait for the first samples of a collector that has been started."""
    for _ in range(200):
        if samples := collector.latest():
            return samples
        time.sleep(0.01)
    raise AssertionError("no sample within 2 s")
