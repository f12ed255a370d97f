"""The few numbers of a host and its GPUs that are kept second by second, of several GPUs or interfaces as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Gauges(NamedTuple):
    """None unknown."""

    gpu: float | None = None
    """Mean utilisation, 0 to 1."""
    gpu_memory: float | None = None
    """Bytes, of all."""
    gpu_clock: float | None = None
    """Hertz of the slowest."""
    gpu_power: float | None = None
    """Watts, of all."""
    gpu_temperature: float | None = None
    """Degrees Celsius of the hottest."""
    cpu: float | None = None
    """Of all cores, 0 to 1."""
    received: float | None = None
    """Bytes a second."""
    sent: float | None = None


def gauges_of(host: Any, gpus: Sequence[Any], known: Callable[[Any, str], Any]) -> Gauges:
    """Of records or of messages; `known` tells of either what a field says, None where it says nothing."""
    return Gauges(*(_of_gpus(list(gpus), known) if len(gpus) else _NO_GPUS), *_of_host(host, known))


def _of_gpus(gpus: Sequence[Any], known: Callable[[Any, str], Any]) -> tuple[float | None, ...]:
    rows = [(gpu.utilisation, gpu.memory_used, gpu.clock, gpu.power, gpu.temperature) for gpu in gpus]
    columns = zip(_OF_GPU, zip(*rows, strict=True), strict=True)
    used, memory, clocks, power, heat = (_told(values, gpus, name, known) for name, values in columns)
    return (
        sum(used) / len(used) if used else None,
        sum(memory) if memory else None,
        min(clocks, default=None),
        sum(power) if power else None,
        max(heat, default=None),
    )


_OF_GPU = ("utilisation", "memory_used", "clock", "power", "temperature")
_NO_GPUS = (None,) * len(_OF_GPU)


def _told(values: Sequence[Any], gpus: Sequence[Any], name: str, known: Callable[[Any, str], Any]) -> Sequence[float]:
    """Those of the values that were told; only what counts as false may stand for what was not."""
    return values if all(values) else [value for gpu in gpus if (value := known(gpu, name)) is not None]


def _of_host(host: Any, known: Callable[[Any, str], Any]) -> tuple[float | None, ...]:
    if host is None:
        return None, None, None
    links = host.interfaces
    if not links:
        return known(host, "cpu"), None, None
    return known(host, "cpu"), sum(each.received for each in links), sum(each.sent for each in links)
