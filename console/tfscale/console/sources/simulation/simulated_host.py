"""Counters of simulated hosts, their GPUs and their links, as agents read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfscale.console.sources.simulation.simulated_course import Course
from tfscale.console.sources.simulation.simulated_faults import HOT_CLOCK, SLOW_LINK
from tfscale.console.sources.simulation.step_phases import TRANSFER
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.host_sample import (
    Disk,
    GpuSample,
    HostSample,
    Interface,
    Neighbour,
    PeerLink,
    Pressure,
    TaskUsage,
)

BYTES = 7_450_000
"""Bytes of the model's gradients."""
_GPU_UTILISATION = 0.86
"""Utilisation of a GPU, idle while Python and the input are at work. A GPU that is never idle would be a finding."""
_MEAN_POWER = 310.0
"""Watts by which a GPU's counter of energy grows."""
_CORES = 16
_HW_SLOWDOWN, _HW_THERMAL = 0x08, 0x40
_GIB = 1 << 30
_ROUND_TRIP, _SLOW_ROUND_TRIP = 0.0003, 0.04
"""Seconds of a packet to another host and back, and on a slow link, where others wait before it."""
_WAITING = 4_000_000
"""Bytes that wait before a slow link."""
_SHARED_OUT = 0.7
"""Share of the bytes of a step that go through a server which holds most of the variables."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Bytes that a task exchanges with a peer each second, and the share of the time in which that takes place."""

    peer: Task
    sent: float
    received: float
    busy: float
    is_slow: bool = False

    def link(self) -> PeerLink:
        """Return it as TCP measures it."""
        return PeerLink(
            peer=str(self.peer),
            sent=self.sent,
            received=self.received,
            busy=self.busy,
            held=0.0,
            unsent=_WAITING if self.is_slow else 0,
            in_flight=256_000 if self.is_slow else 64_000,
            round_trip=_SLOW_ROUND_TRIP if self.is_slow else _ROUND_TRIP,
            delivery_rate=max(self.sent, self.received) / max(self.busy, 1e-3),
            app_limited=not self.is_slow,
            retransmitted=0.0,
        )


class SimulatedHost:
    """Host of one task, at each moment as its course has it."""

    def __init__(self, course: Course, task: Task, rate: float) -> None:
        self._course, self._task, self._trains = course, task, task.role is Role.WORKER
        self.place = course.places[task]
        ring = course.tasks
        near = dict.fromkeys([ring[(self.place + 1) % len(ring)], ring[self.place - 1]])
        self._near = [other for other in near if other != task]
        self._ring = _ring_of(course, task)
        self._transfer = TRANSFER / (1 + TRANSFER) / rate
        """Seconds in which the gradients of a step go from one worker to the next."""

    def sample(self, at: float, begin: float, pace: float, *, runs: bool) -> HostSample:
        """Return the counters of its host, which counts in Unix seconds since `begin`, at `pace` steps a second."""
        is_taken, exchanges = self._has("cpu", at), [*self._exchanges(at, pace)] if runs else []
        sent = sum(each.sent for each in exchanges) or 300.0
        received = sum(each.received for each in exchanges) or 300.0
        trains = runs and self._trains and self._course.standing(self._task, at) is None
        usage = self._usage(at, is_taken) if runs else None
        return HostSample(
            cpu=0.98 if is_taken else round((usage.cpu or 0.0) / _CORES + 0.025, 3) if usage else 0.02,
            cores=_CORES,
            load=31.0 if is_taken else 5.6 if usage and usage.cpu else 0.1,
            memory_used=21 * _GIB,
            memory_total=64 * _GIB,
            swap_used=0,
            pressure=Pressure(0.62 if is_taken else 0.01, 0.0, 0.0),
            interfaces=(Interface("eth0", received, sent, 10e9),),
            task=usage,
            disk=Disk(612 * _GIB, 960 * _GIB, 48e6 if trains else 0.0, 2e6 if runs else 0.0),
            links=tuple(each.link() for each in exchanges),
            neighbours=tuple(self._heard(near, at, begin) for near in self._near),
        )

    def gpu(self, at: float, *, runs: bool) -> GpuSample:
        """Return the counters of its GPU."""
        hot, holds = self._has("thermal", at), runs and self._trains
        works = holds and self._course.standing(self._task, at) is None
        return GpuSample(
            index=0,
            uuid=f"GPU-{self.place:08x}",
            name="NVIDIA A100-SXM4-40GB",
            utilisation=_GPU_UTILISATION if works else 0.0,
            memory_used=33 * _GIB if holds else 0,
            memory_total=40 * _GIB,
            power=(210.0 if hot else 330.0) if works else 52.0,
            power_limit=400.0,
            temperature=(91.0 if hot else 61.0) if works else 33.0,
            clock=int(1.41e9 * (HOT_CLOCK if hot else 1.0)),
            clock_max=int(1.41e9),
            clock_event_reasons=_HW_SLOWDOWN | _HW_THERMAL if hot else 0,
            memory_utilisation=0.41 if works else 0.0,
            pcie_received=2.1e9 if works else 0.0,
            pcie_sent=310e6 if works else 0.0,
            nvlinks=12,
            nvlinks_up=12,
            nvlink_errors=0,
            energy=_MEAN_POWER * at,
        )

    def _has(self, kind: str, at: float) -> bool:
        return self._course.holds(kind, self._task, at)

    def _usage(self, at: float, is_taken: bool) -> TaskUsage:
        """Return what the process uses: no core while it is stopped or waits for good."""
        waits = self._course.standing(self._task, at) is not None
        cores = 0.0 if waits else (3.1 if is_taken else 5.2) if self._trains else 0.9
        return TaskUsage(1, 84, cores, 3 * _GIB, int(self._has("stop", at)))

    def _exchanges(self, at: float, pace: float) -> Iterator[Exchange]:
        """Yield the exchanges of a ring, or those between workers and servers."""
        if self._course.standing(self._task, at) is not None:
            pace = 0.0
        each_way = BYTES * pace
        peers = () if not self._course.servers else self._course.servers if self._trains else self._course.workers
        for peer in () if self._task.role is Role.CHIEF else peers:
            server = peer if self._trains else self._task
            share = each_way * server_share(self._course, server, at)
            yield Exchange(peer, share, share, min(0.9, self._transfer * pace))
        if self._ring:
            after, before = self._ring
            slow = self._has("link", at)
            yield Exchange(after, 2 * each_way, 0.0, self._busy(pace, slow), slow)
            if before != after:
                yield Exchange(before, 0.0, 2 * each_way, 0.0)

    def _busy(self, pace: float, is_slow: bool) -> float:
        return min(0.97, self._transfer * (SLOW_LINK if is_slow else 1.0) * pace)

    def _heard(self, near: Task, at: float, begin: float) -> Neighbour:
        faults = (each for each in self._course.faults if each.kind == "gone" and each.task == near and each.holds(at))
        answered = next((fault.begin for fault in faults), at)
        return Neighbour(str(near), begin + answered, _ROUND_TRIP, begin + answered)


def _ring_of(course: Course, task: Task) -> tuple[Task, Task] | None:
    """Return the next worker in the ring of the all-reduce and the one before; None without such a ring."""
    workers = course.workers
    if course.servers or len(workers) < 2:
        return None
    return workers[(task.index + 1) % len(workers)], workers[task.index - 1]


def server_share(course: Course, server: Task, at: float) -> float:
    """Return the share of a step's bytes that goes through a parameter server."""
    servers = course.servers
    uneven = next((each for each in servers if course.holds("uneven", each, at)), None)
    if uneven is None or len(servers) == 1:
        return 1 / len(servers)
    return _SHARED_OUT if server == uneven else (1 - _SHARED_OUT) / (len(servers) - 1)
