"""Gauges of a host and its GPUs for the history; several GPUs or interfaces become one number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple


class Gauges(NamedTuple):
    """Readings of one task's host; None unknown."""

    gpu: float | None = None
    """Mean utilisation, 0 to 1."""
    gpu_memory: float | None = None
    """Bytes on all GPUs."""
    gpu_clock: float | None = None
    """Hertz of the slowest GPU."""
    gpu_power: float | None = None
    """Watts of all GPUs."""
    gpu_temperature: float | None = None
    """Degrees Celsius of the hottest GPU."""
    cpu: float | None = None
    """Utilisation of all cores, 0 to 1."""
    received: float | None = None
    """Bytes a second over all interfaces."""
    sent: float | None = None


def gauges_of(host: Any, gpus: Iterable[Any], read_field: Callable[[Any, str], Any]) -> Gauges:
    """Return the readings of records or of messages; `read_field(object, field)` returns None for an unset field."""
    cpu, received, sent = (None, None, None) if host is None else _host_readings(host, read_field)
    rows = list(map(_READ, gpus))
    if not rows:
        return Gauges(cpu=cpu, received=received, sent=sent)
    used, memory, clocks, power, heat = zip(*rows, strict=True)
    if not (all(used) and all(memory) and all(clocks) and all(power) and all(heat)):
        # A message gives 0 for an unset field: ask for each field whether it is set.
        used, memory, clocks, power, heat = (_known_values(gpus, name, read_field) for name in _GPU_FIELDS)
    return Gauges(
        gpu=sum(used) / len(used) if used else None,
        gpu_memory=sum(memory) if memory else None,
        gpu_clock=min(clocks, default=None),
        gpu_power=sum(power) if power else None,
        gpu_temperature=max(heat, default=None),
        cpu=cpu,
        received=received,
        sent=sent,
    )


_GPU_FIELDS = ("utilisation", "memory_used", "clock", "power", "temperature")
_READ = attrgetter(*_GPU_FIELDS)


def _known_values(gpus: Iterable[Any], name: str, read_field: Callable[[Any, str], Any]) -> tuple[float, ...]:
    return tuple(value for gpu in gpus if (value := read_field(gpu, name)) is not None)


def _host_readings(host: Any, read_field: Callable[[Any, str], Any]) -> tuple[float | None, float | None, float | None]:
    received = sent = None
    for link in host.interfaces:
        received, sent = (received or 0.0) + link.received, (sent or 0.0) + link.sent
    return read_field(host, "cpu"), received, sent
