"""Counters of a host, of its network and GPUs, and of the task's processes on it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from tfscale.core.records.schema import Time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

G = TypeVar("G", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Pressure:
    """Linux pressure stall information, `some avg10`, 0 to 1."""

    cpu: float | None
    memory: float | None
    io: float | None


@dataclass(frozen=True, slots=True)
class Interface:
    """Network interface: bytes a second each way; `speed` in bits a second is the driver's claim."""

    name: str
    received: float
    sent: float
    speed: float | None


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """Resources of the task's process tree: `cpu` in cores, `memory` in resident bytes."""

    processes: int
    threads: int
    cpu: float | None
    memory: int
    stopped: int = 0
    """Processes that a signal has stopped."""
    traced: int = 0
    """Processes that a debugger has stopped."""
    blocked: int = 0
    """Threads that wait in the kernel for 2 s or longer, and cannot be interrupted: for a disk or a file server."""
    blocked_for: float | None = None
    """Seconds for which the longest-waiting thread of the task has waited."""
    blocked_in: str = ""
    """Kernel function in which the longest-waiting thread waits (`wchan`)."""
    frozen: bool = False
    """True while its cgroup is frozen, as by `docker pause`."""
    stands_at: str = ""
    """Clause with the line at which the task's program stands, after some time without a step; empty if unknown."""
    granted: int | None = None
    """CPUs on which the task may run, where they are fewer than the host's; None: all, or not known."""

    @property
    def is_held(self) -> bool:
        """True if a debugger, the cgroup or the kernel holds the process, or the line is known at which it stands."""
        return bool(self.traced or self.blocked or self.frozen or self.stands_at)


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that holds the task's working folder: bytes, and bytes a second since the sample before."""

    free: int
    """Bytes that the task may still write."""
    total: int
    read: float | None = None
    """Rate of all programs of the host, as `written`; None where the disk is no block device of this host."""
    written: float | None = None


@dataclass(frozen=True, slots=True)
class PeerLink:
    """TCP's own knowledge of the task's connections to one peer on another host, over the second before."""

    peer: str
    """Task of the peer; `worker:2 or worker:3` if several tasks of a host may be the peer."""
    sent: float
    """Bytes a second that the peer has acknowledged."""
    received: float
    busy: float
    """Share of the time with unacknowledged bytes, of the busiest connection."""
    held: float
    """Share of the time with the peer's receive window full: the peer's process did not read."""
    unsent: int
    """Bytes that wait in this host's kernel."""
    in_flight: int
    """Bytes that were sent and are not acknowledged."""
    round_trip: float
    delivery_rate: float
    """Bytes a second, as the kernel measured last on the connection that carried most."""
    app_limited: bool
    """True where the program had too little to send for more."""
    retransmitted: float | None = None
    """Share of the segments that were lost and sent again; None where none was sent."""
    unanswered: float | None = None
    """Seconds since the peer's host last acknowledged repeated data; None while it answers."""


UNHEARD = 4.0
"""Seconds without an answer of its host after which a neighbour is missed: two greetings in turn were due. With less a
single lost greeting would count, with more a cut host is named later."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Agent of another host, greeted every two seconds: the answer tells a host that is cut off from a dead host."""

    task: str
    heard: Time | None
    """Time of the neighbour's newest answer, on the clock of the greeting host; None before its first."""
    round_trip: float | None = None
    """Seconds of that greeting."""
    reached: Time | None = None
    """Time of the newest answer of the neighbour's host: a connection, or a refusal for want of an agent."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """State of the host at one moment; rates are since the sample before."""

    cpu: float | None
    cores: int
    load: float | None
    memory_used: int
    memory_total: int
    swap_used: int
    pressure: Pressure | None = None
    interfaces: tuple[Interface, ...] = ()
    task: TaskUsage | None = None
    throttled: float | None = None
    """Seconds a second in which the kernel held back the task's cgroup."""
    memory_kills: int | None = None
    """Processes of the task's cgroup that the kernel has killed for want of memory since the task's start."""
    disk: Disk | None = None
    links: tuple[PeerLink, ...] = ()
    """The task's busiest connections."""
    neighbours: tuple[Neighbour, ...] = ()
    """Agents on other hosts that the task's agent greets."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """State of one GPU at one moment: watts, degrees Celsius, hertz, bytes; `clock_event_reasons` is NVML's mask."""

    index: int
    uuid: str
    name: str
    utilisation: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clock: int | None = None
    clock_max: int | None = None
    clock_event_reasons: int | None = None
    ecc_errors: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    xid: int | None = None
    """The driver's newest error of the last ten minutes, by its number in NVIDIA's list."""
    memory_utilisation: float | None = None
    """Share of the time in which the GPU's memory was read or written."""
    pcie_received: float | None = None
    """Bytes a second, over 20 ms; as `pcie_sent`, from the view of the GPU."""
    pcie_sent: float | None = None
    nvlinks: int | None = None
    """NVLinks of the GPU, wired or not."""
    nvlinks_up: int | None = None
    nvlink_errors: int | None = None
    """Replays, recoveries and CRC errors of all links since the driver was loaded."""
    topology: str = ""
    """Ways to the other GPUs of its host: `NVLink with 1-3`."""
    energy: float | None = None
    """Joules since the driver was loaded; None where the GPU does not count them (before Volta)."""


@dataclass(frozen=True, slots=True)
class Counters:
    """State of the host and its GPUs at one moment."""

    host: HostSample | None = None
    gpus: tuple[GpuSample, ...] = ()

    def gpus_as(self, kind: type[G]) -> tuple[G, ...]:
        """Return the GPUs as records of `kind`, which has some of their fields."""
        names = [each.name for each in fields(kind)]
        return tuple(kind(*[getattr(gpu, name) for name in names]) for gpu in self.gpus)

    def __bool__(self) -> bool:
        """Return True where either is known."""
        return self.host is not None or bool(self.gpus)
