"""Vitals: counters of a task's host and GPUs, condensed over the newest seconds.

Samples are kept unread and condensed only when a rule reads them, which is rare.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import median
from typing import Any

from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Counters, HostSample, Interface

KEEP_SECONDS = 60.0
"""Seconds of samples that are kept; an agent sends one a second."""
WINDOW_SECONDS = 10.0
"""Seconds of samples that are condensed: the kernel's pressure figures are means over as long."""
OLDER_SECONDS = 20.0
"""Seconds between older samples that are kept: a thousand hosts send a megabyte a second."""
FEWEST_SECONDS = 3.0
"""Least seconds of samples that are condensed, also where a slowdown began later: a median of three samples leaves
one odd sample out."""

HEAT = 0x40 | 0x20
"""NVML clock-event reasons HwThermalSlowdown and SwThermalSlowdown."""
POWER_BRAKE = 0x80 | 0x08
"""NVML reasons HwPowerBrakeSlowdown, and HwSlowdown: without a thermal reason a fault of power or supply."""
POWER_CAP = 0x04
"""NVML reason SwPowerCap: normal for a GPU at work, and a cause only where the clock falls with it."""

_IDLE = 0.05
"""Utilisation up to which a GPU is idle, and its clock and temperature are no evidence: an idle GPU
lowers its clock, and cools down."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Medians over the window; None unknown. Of several GPUs or interfaces the worst counts."""

    cpu: float | None = None
    """Share of all cores in use, 0 to 1."""
    cpu_pressure: float | None = None
    memory_pressure: float | None = None
    io_pressure: float | None = None
    throttled: float | None = None
    """Seconds a second for which the limit of its cgroup held the task back."""
    task_cores: float | None = None
    memory: float | None = None
    """Share of the host's memory in use."""
    swapping: float | None = None
    """Bytes a second by which swap has grown."""
    sent: float | None = None
    """Bytes a second over the busiest interface."""
    received: float | None = None
    link_claim: float | None = None
    """Speed of the busiest interface by its driver, bits a second."""
    gpu: float | None = None
    """Utilisation of the least used GPU at work, 0 to 1."""
    gpu_memory: float | None = None
    temperature: float | None = None
    clock: float | None = None
    """Clock of the slowest GPU over its highest clock."""
    heat: float | None = None
    """Share of the samples in which a GPU was slowed down by heat."""
    power_brake: float | None = None
    power_cap: float | None = None
    ecc_errors: int | None = None
    """Uncorrectable memory errors that are new since the oldest sample."""
    xid: int | None = None
    """The newest XID error of the last minutes."""


NO_VITALS = Vitals()


@dataclass(frozen=True, slots=True)
class GpuState:
    """Fields of a `GpuSample` for vitals: reading all fields doubled the cost of vitals."""

    uuid: str
    utilisation: float | None
    memory_used: int | None
    memory_total: int | None
    temperature: float | None
    clock: int | None
    clock_max: int | None
    clock_event_reasons: int | None
    ecc_errors: int | None
    xid: int | None


@dataclass(slots=True)
class _Sample:
    """Counters of one moment."""

    at: float
    counters: Counters
    _read: tuple[HostSample | None, tuple[GpuState, ...]] | None = None

    @property
    def read(self) -> tuple[HostSample | None, tuple[GpuState, ...]]:
        """Host and GPUs, decoded once: a sample is in the windows of several periods."""
        if self._read is None:
            self._read = self.counters.host, self.counters.gpus_as(GpuState)
        return self._read

    def unread(self) -> _Sample:
        """Return the sample without what was decoded, which takes ten times the memory."""
        return _Sample(self.at, self.counters)


@dataclass(slots=True)
class Samples:
    """The newest samples of one task's agent."""

    spacing: float = 0.0
    """Least seconds between two samples that are kept."""
    _recent: deque[_Sample] = field(default_factory=deque)
    _older: deque[_Sample] = field(default_factory=deque)
    most_moved: float | None = None
    """Most bytes that one interface moved in any second, in one direction; condense at least once in WINDOW_SECONDS."""

    def add(self, frame: Frame) -> None:
        """Keep the counters of a frame."""
        counters, recent, older = frame.counters, self._recent, self._older
        if not counters or (recent and recent[-1].at <= frame.at < recent[-1].at + self.spacing):
            return
        recent.append(_Sample(frame.at, counters))
        while recent[0].at < frame.at - WINDOW_SECONDS:
            old = recent.popleft()
            if not older or old.at >= older[-1].at + OLDER_SECONDS:
                older.append(old.unread())
        while older and older[0].at < frame.at - KEEP_SECONDS:
            older.popleft()

    def vitals(self, since: float = -math.inf) -> Vitals:
        """Condense the newest samples, where possible those after `since` (Unix seconds); all None without samples."""
        if not self._recent:
            return NO_VITALS
        newest = self._recent[-1].at
        begin = min(max(since, newest - WINDOW_SECONDS), newest - FEWEST_SECONDS)
        window = list(takewhile(lambda sample: sample.at > begin, reversed(self._recent)))[::-1]
        hosts = [(sample.at, host) for sample in window if (host := sample.read[0]) is not None]
        self._note_moved([host for _, host in hosts])
        gpus = [sample.read[1] for sample in window]
        return Vitals(**_of_host(hosts), **_of_gpus(gpus), ecc_errors=self._new_ecc_errors(gpus[-1]))

    def _new_ecc_errors(self, newest: Sequence[GpuState]) -> int | None:
        """Return the errors since the oldest sample: errors that slow a GPU come before its slowness."""
        now = _ecc_errors(newest)
        if not now:
            return now
        before = _ecc_errors((self._older or self._recent)[0].read[1])
        return max(0, now - (now if before is None else before))

    def _note_moved(self, hosts: Iterable[HostSample]) -> None:
        links = [link for host in hosts if (link := _busiest(host))]
        before = () if self.most_moved is None else (self.most_moved,)
        self.most_moved = max((*before, *(max(link.sent, link.received) for link in links)), default=None)


def _ecc_errors(gpus: Sequence[GpuState]) -> int | None:
    errors = [gpu.ecc_errors for gpu in gpus if gpu.ecc_errors is not None]
    return sum(errors) if errors else None


def _of_host(samples: Sequence[tuple[float, HostSample]]) -> dict[str, Any]:
    hosts = [host for _, host in samples]
    pressures = [host.pressure for host in hosts if host.pressure is not None]
    links = [link for host in hosts if (link := _busiest(host)) is not None]
    return {
        "cpu": middle(host.cpu for host in hosts),
        "cpu_pressure": middle(pressure.cpu for pressure in pressures),
        "memory_pressure": middle(pressure.memory for pressure in pressures),
        "io_pressure": middle(pressure.io for pressure in pressures),
        "throttled": middle(host.throttled for host in hosts),
        "task_cores": middle(host.task.cpu for host in hosts if host.task),
        "memory": middle(host.memory_used / host.memory_total for host in hosts if host.memory_total),
        "swapping": _growth([(at, host.swap_used) for at, host in samples]),
        "sent": middle(link.sent for link in links),
        "received": middle(link.received for link in links),
        "link_claim": links[-1].speed if links else None,
    }


def _of_gpus(samples: Sequence[tuple[GpuState, ...]]) -> dict[str, Any]:
    by_uuid: dict[str, list[GpuState]] = {}
    for gpu in (gpu for sample in samples for gpu in sample):
        by_uuid.setdefault(gpu.uuid, []).append(gpu)
    gpus = [_of_gpu(history) for history in by_uuid.values()]
    at_work = [values for values in gpus if values["gpu"] is None or values["gpu"] > _IDLE]
    worst: dict[str, Callable[..., Any]] = {"gpu": min, "clock": min}
    names = gpus[0] if gpus else ()
    xid = _worst(max, (history[-1].xid for history in by_uuid.values()))
    return {**{name: _worst(worst.get(name, max), (values[name] for values in at_work)) for name in names}, "xid": xid}


def _of_gpu(history: Sequence[GpuState]) -> dict[str, Any]:
    reasons = [gpu.clock_event_reasons for gpu in history if gpu.clock_event_reasons is not None]
    return {
        "gpu": middle(gpu.utilisation for gpu in history),
        "gpu_memory": middle(
            gpu.memory_used / gpu.memory_total for gpu in history if gpu.memory_used and gpu.memory_total
        ),
        "temperature": middle(gpu.temperature for gpu in history),
        "clock": middle(gpu.clock / gpu.clock_max for gpu in history if gpu.clock and gpu.clock_max),
        "heat": _share(bool(reason & HEAT) for reason in reasons),
        "power_brake": _share(bool(reason & POWER_BRAKE) and not reason & HEAT for reason in reasons),
        "power_cap": _share(bool(reason & POWER_CAP) for reason in reasons),
    }


def _busiest(host: HostSample) -> Interface | None:
    """Return the interface with the most traffic; loopback, which joins tasks of one host, does not count."""
    return max(
        (interface for interface in host.interfaces if interface.name != "lo"),
        key=lambda interface: interface.sent + interface.received,
        default=None,
    )


def middle(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are not None; None where there is none."""
    measured = [value for value in values if value is not None]
    return float(median(measured)) if measured else None


def _share(flags: Iterable[bool]) -> float | None:
    measured = list(flags)
    return sum(measured) / len(measured) if measured else None


def _growth(used: Sequence[tuple[float, int]]) -> float | None:
    if len(used) < 2 or used[-1][0] <= used[0][0]:
        return None
    return max(0.0, (used[-1][1] - used[0][1]) / (used[-1][0] - used[0][0]))


def _worst(choose: Callable[..., Any], values: Iterable[float | None]) -> Any:
    return choose((value for value in values if value is not None), default=None)
