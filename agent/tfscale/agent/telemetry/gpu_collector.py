"""Collector of NVIDIA GPUs' counters through NVML."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tfscale.agent.collector_thread import CollectorThread
from tfscale.agent.telemetry.gpu_topology import ways_of
from tfscale.agent.telemetry.nvlinks import NvLinks
from tfscale.agent.telemetry.nvml_call import ask
from tfscale.core.records.host_sample import GpuSample

_logger = logging.getLogger(__name__)
_ERROR_SHOWN = 600.0
"""Seconds for which a driver's error is shown, because its effect on the GPU lasts longer than its event."""


class GpuCollector(CollectorThread[tuple[GpuSample, ...]]):
    """Collector of all GPUs of the host. Its thread ends at once without a driver; while one hangs it has no samples.

    `nvml` is the module `pynvml` or an object with the same functions; None imports pynvml.
    """

    def __init__(self, nvml: Any = None, period: float = 1.0) -> None:
        super().__init__("nvml", (), period)
        self._nvml = nvml

    def _samples(self) -> Generator[tuple[GpuSample, ...]]:
        nvml = self._nvml or _pynvml()
        if nvml is None:
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            return
        try:
            devices = _devices(nvml)
            names = sorted({device.name for device in devices})
            _logger.info("%d GPUs: %s", len(devices), ", ".join(names) or "none answers")
            errors = _XidErrors(nvml, [device.handle for device in devices])
            while devices:
                errors.collect()
                yield tuple(_sample(nvml, errors, device) for device in devices)
        finally:
            nvml.nvmlShutdown()


def count_gpus(nvml: Any = None) -> int:
    """Return how many GPUs the host has: 0 without a driver. It may hang. `nvml` is as for GpuCollector."""
    nvml = nvml or _pynvml()
    if nvml is None:
        return 0
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return 0
    try:
        return ask(nvml, nvml.nvmlDeviceGetCount) or 0
    finally:
        nvml.nvmlShutdown()


@dataclass(frozen=True, slots=True)
class _Device:
    """Properties of one GPU that stay as they are."""

    handle: Any
    index: int
    uuid: str
    name: str
    topology: str
    nvlinks: NvLinks


class _XidErrors:
    """Newest error (XID) of each GPU. The driver sends errors as events; none if it does not support events."""

    def __init__(self, nvml: Any, handles: list[Any]) -> None:
        self._nvml = nvml
        self._newest: dict[str, tuple[float, int]] = {}
        self._events = ask(nvml, nvml.nvmlEventSetCreate)
        for handle in handles if self._events is not None else ():
            ask(nvml, nvml.nvmlDeviceRegisterEvents, handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def collect(self) -> None:
        """Read the waiting events."""
        while self._events is not None:
            event = ask(self._nvml, self._nvml.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                return
            uuid = _text(ask(self._nvml, self._nvml.nvmlDeviceGetUUID, event.device))
            self._newest[uuid] = (time.monotonic(), int(event.eventData))

    def newest(self, uuid: str) -> int | None:
        """Return the newest error of a GPU, None without an error in the last ten minutes."""
        at, number = self._newest.get(uuid, (0.0, 0))
        return number if number and time.monotonic() - at < _ERROR_SHOWN else None


def _pynvml() -> Any:
    """Import pynvml if there is a driver: on other hosts its 3 MB stay out of memory."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
        import pynvml
    except (ImportError, OSError):
        return None
    return pynvml


def _devices(nvml: Any) -> list[_Device]:
    """List the GPUs that answer."""
    indices = range(ask(nvml, nvml.nvmlDeviceGetCount) or 0)
    handles = ((index, ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)) for index in indices)
    gpus = [(index, handle) for index, handle in handles if handle is not None]
    return [
        _Device(
            handle,
            index,
            _text(ask(nvml, nvml.nvmlDeviceGetUUID, handle)),
            _text(ask(nvml, nvml.nvmlDeviceGetName, handle)),
            topology,
            NvLinks(nvml, handle),
        )
        for (index, handle), topology in zip(gpus, ways_of(nvml, gpus), strict=True)
    ]


def _sample(nvml: Any, errors: _XidErrors, device: _Device) -> GpuSample:
    handle = device.handle
    usage = ask(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    nvlinks = device.nvlinks.state()
    return GpuSample(
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        utilisation=None if usage is None else usage.gpu / 100,
        memory_utilisation=None if usage is None else usage.memory / 100,
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        power=_scaled(ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
        power_limit=_scaled(ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1e-3),
        temperature=_scaled(ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU), 1.0),
        clock=_hertz(ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)),
        clock_max=_hertz(ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)),
        clock_event_reasons=ask(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle),
        ecc_errors=ask(
            nvml,
            nvml.nvmlDeviceGetTotalEccErrors,
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        ),
        xid=errors.newest(device.uuid),
        pcie_received=_pcie(nvml, handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
        pcie_sent=_pcie(nvml, handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
        nvlinks=nvlinks.links,
        nvlinks_up=nvlinks.up,
        nvlink_errors=nvlinks.errors,
        topology=device.topology,
        energy=_scaled(ask(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, handle), 1e-3),
    )


def _pcie(nvml: Any, handle: Any, direction: int) -> float | None:
    """Return bytes a second over PCIe. The driver counts for 20 ms, in which this thread waits."""
    return _scaled(ask(nvml, nvml.nvmlDeviceGetPcieThroughput, handle, direction), 1e3)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _hertz(megahertz: int | None) -> int | None:
    return None if megahertz is None else megahertz * 1_000_000


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
