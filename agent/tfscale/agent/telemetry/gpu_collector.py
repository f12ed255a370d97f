"""Collector of NVIDIA GPUs' counters through NVML."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Generator
from typing import Any

from tfscale.agent.telemetry.collector_thread import CollectorThread
from tfscale.core.records import GpuSample

_logger = logging.getLogger(__name__)
_ERROR_SHOWN = 600.0
"""Seconds for which a driver's error is shown, because its effect on the GPU lasts longer than its event."""


class GpuCollector(CollectorThread[tuple[GpuSample, ...]]):
    """Collector of all GPUs of the host. Without a driver its thread ends at once; while one hangs, no GPU is told.

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
            _logger.info(
                "%d GPUs: %s", len(devices), ", ".join(sorted({name for *_, name in devices})) or "none answers"
            )
            errors = _XidErrors(nvml, [handle for handle, *_ in devices])
            while devices:
                errors.collect()
                yield tuple(_sample(nvml, errors, *device) for device in devices)
        finally:
            nvml.nvmlShutdown()


class _XidErrors:
    """Newest error (XID) of each GPU. The driver sends them as events; none if it does not support events."""

    def __init__(self, nvml: Any, handles: list[Any]) -> None:
        self._nvml = nvml
        self._newest: dict[str, tuple[float, int]] = {}
        self._events = _ask(nvml, nvml.nvmlEventSetCreate)
        for handle in handles if self._events is not None else ():
            _ask(nvml, nvml.nvmlDeviceRegisterEvents, handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def collect(self) -> None:
        """Read the events that are there, without waiting."""
        while self._events is not None:
            event = _ask(self._nvml, self._nvml.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                return
            uuid = _text(_ask(self._nvml, self._nvml.nvmlDeviceGetUUID, event.device))
            self._newest[uuid] = (time.monotonic(), int(event.eventData))

    def newest(self, uuid: str) -> int | None:
        """Return the newest error of a GPU, None if it is older than ten minutes."""
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


def _devices(nvml: Any) -> list[tuple[Any, int, str, str]]:
    """List handle, index, UUID and name of each GPU that answers."""
    devices = []
    for index in range(_ask(nvml, nvml.nvmlDeviceGetCount) or 0):
        handle = _ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is not None:
            uuid, name = _ask(nvml, nvml.nvmlDeviceGetUUID, handle), _ask(nvml, nvml.nvmlDeviceGetName, handle)
            devices.append((handle, index, _text(uuid), _text(name)))
    return devices


def _sample(nvml: Any, errors: _XidErrors, handle: Any, index: int, uuid: str, name: str) -> GpuSample:
    usage = _ask(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return GpuSample(
        index=index,
        uuid=uuid,
        name=name,
        utilisation=None if usage is None else usage.gpu / 100,
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        power=_scaled(_ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
        power_limit=_scaled(_ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1e-3),
        temperature=_scaled(_ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU), 1.0),
        clock=_hertz(_ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)),
        clock_max=_hertz(_ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)),
        clock_event_reasons=_ask(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle),
        ecc_errors=_ask(
            nvml,
            nvml.nvmlDeviceGetTotalEccErrors,
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        ),
        xid=errors.newest(uuid),
    )


def _ask(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of NVML and return its result, None if this GPU or driver does not support it."""
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _hertz(megahertz: int | None) -> int | None:
    return None if megahertz is None else megahertz * 1_000_000


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
