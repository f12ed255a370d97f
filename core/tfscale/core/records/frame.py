"""Frame of an agent, its description, and its farewell."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfscale.core.records.host_sample import UNHEARD, Counters, GpuSample, HostSample
from tfscale.core.records.probe_status import Activity, Collective, ProbeStatus
from tfscale.core.records.schema import Time
from tfscale.core.records.step_batch import Coordinator, StepBatch
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.records.training import Training


@dataclass(frozen=True, slots=True)
class Frame:
    """State of one agent's task and host at one moment."""

    sequence: int
    at: Time
    status: TaskStatus
    probe: ProbeStatus | None = None
    collective: Collective | None = None
    host: HostSample | None = None
    gpus: tuple[GpuSample, ...] = ()
    steps: tuple[StepBatch, ...] = ()
    dropped: int = 0
    training: Training | None = None
    activities: tuple[Activity, ...] = ()
    """Activities that ended since the frame before, or still last."""
    coordinator: Coordinator | None = None

    @property
    def is_stopped(self) -> bool:
        """True where a signal has stopped a process of the task."""
        return bool(self.host and self.host.task and self.host.task.stopped)

    @property
    def is_held(self) -> bool:
        """True if something keeps the task's process from going on, or the line of its program is known."""
        return bool(self.host and self.host.task and self.host.task.is_held)

    @property
    def cores(self) -> float | None:
        """Cores that the task's processes use; None unknown."""
        return self.host.task.cpu if self.host and self.host.task else None

    @property
    def gpu_count(self) -> int:
        """Number of the host's GPUs, by NVML."""
        return len(self.gpus)

    @property
    def link_use(self) -> float | None:
        """Share of the time in which the busiest link to a peer was busy; None without a link."""
        return max((link.busy for link in self.host.links), default=None) if self.host else None

    @property
    def misses_neighbour(self) -> bool:
        """True where a host that answered before does not any more."""
        reached = (neighbour.reached for neighbour in self.host.neighbours) if self.host else ()
        return any(at is not None and self.at - at > UNHEARD for at in reached)

    @property
    def counters(self) -> Counters:
        """The host and its GPUs, without the rest of the frame."""
        return Counters(self.host, self.gpus)

    def with_steps(self, steps: tuple[StepBatch, ...]) -> Frame:
        """Return this frame with other steps."""
        return replace(self, steps=steps)


@dataclass(frozen=True, slots=True)
class Description:
    """TaskIdentity of an agent."""

    version: str
    run: str
    task: str
    lead: str
    """The task whose agent issues generations: chief:0, else worker:0."""
    host: str
    cluster: str
    """The cluster file as JSON."""
    command: tuple[str, ...]
    log_path: str
    generation: int
    started: Time
    pid: int
    directory: str = ""
    """Folder in which the task's program is started."""
    fingerprint: str = ""
    """Fingerprint of the cluster, empty of an agent of an earlier version."""
    placement: str = ""
    """Newest placement as JSON; empty while all tasks are where the cluster file has them."""
    on_straggler: str = ""
    """Policy `on_straggler` of the agent's cluster file; empty without recovery."""
    files: tuple[str, ...] = ()
    """Files of code that the command names, as they were at the agent's start: `train.py 1f3c5a7b9d0e`, by SHA-256."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """Last words of an agent that ends."""

    task_goes_on: bool = False
    """True where the agent leaves a living task to the next agent."""
    moves: bool = False
    """True if tasks are placed anew: the agent goes on with another task, or as a spare."""
