"""Frozen records of what agents send to consoles, and of what recordings and exports hold: one schema for all.

Durations are seconds, ratios 0 to 1, `None` is unknown. In the columns of `StepBatch`, NaN is unknown. The wire
(protos/tfscale/v1) has the same fields under the same names; `docs/reference/schema.md` explains each.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Annotated

SCHEMA_VERSION = 1
"""Version of the stream, the recording and the export; rises when a reader of the older would misread the newer."""
OLDEST_SCHEMA = 1
"""Oldest version that is still spoken: agents and consoles of neighbouring versions speak the lower of both."""

Time = Annotated[float, "Unix seconds on the clock of the agent's host"]
"""Type of a date, as distinct from other numbers."""

PHASES = ("update", "host", "input", "compute", "reduce")
"""The five parts of a step, in the order of time."""

LAG_PHASES = PHASES[:-1]
"""The parts in which a worker does not wait for others, between leaving one all-reduce and entering the next."""


class TaskState(StrEnum):
    """State of a task, as its agent sees it; docs/how-it-works/ownership.md has the transitions."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    LOST = "lost"


class Stage(StrEnum):
    """Stage of a command, for the tasks that its progress names."""

    PLANNED = "planned"
    STOPPING = "stopping"
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"
    WORKING = "working"
    """The message names the work; the task's state stays as it is. Only consoles make this one."""


class ProbeState(StrEnum):
    """State of the probe inside the training process."""

    WAITING = "waiting"
    MEASURING = "measuring"
    DISABLED = "disabled"
    ABSENT = "absent"
    """No process of the task will load the probe, as its agent has found; the message says why."""


class ActivityKind(StrEnum):
    """Kind of work that a training process does beside its steps."""

    COMPILE = "compile"
    """A graph is traced."""
    CHECKPOINT = "checkpoint"
    """A checkpoint or a model is written or read."""
    EVALUATION = "evaluation"
    """Batches that train nothing."""
    IDLE = "idle"
    """A long time between two steps in which nothing of the above is done."""


class ProfileStage(StrEnum):
    """Progress of a profile."""

    ASKED = "asked"
    """The order was sent to the process."""
    CAPTURING = "capturing"
    WRITING = "writing"
    WRITTEN = "written"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Exit:
    """End of a task's process: a code or a signal, both None where it could not be read."""

    code: int | None
    signal: int | None
    at: Time
    requested: bool = False
    """True where the agent had asked the task to end."""
    log: tuple[str, ...] = ()
    """The last lines of its log, the one that tells why it ended among them."""

    @property
    def well(self) -> bool:
        """True where it exited 0, or was asked to end."""
        return self.requested or self.code == 0


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """State of a task. `generation` is the cluster's; `attempt` counts this task's starts within it, from 1."""

    state: TaskState
    generation: int = 0
    attempt: int = 0
    pid: int | None = None
    started: Time | None = None
    exit: Exit | None = None
    reason: str = ""
    restart_at: Time | None = None
    """Time at which it is started again unasked; None while nobody is about to."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Accelerators that TensorFlow sees in the training process."""

    gpus_found: int
    """GPUs that it has found (physical devices)."""
    gpus: int
    """GPUs that the program uses (logical devices)."""
    tpus: int
    why_no_gpu: str = ""
    """The reason why it has found none, as far as it is known."""


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """State of the probe, and facts about the program that it measures."""

    state: ProbeState
    message: str = ""
    """The reason why nothing is measured, or no more."""
    strategy: str | None = None
    replicas: int | None = None
    local_replicas: int | None = None
    ranks: int | None = None
    """Participants of the gradient collective."""
    reduced_bytes_per_step: int | None = None
    """Elements x dtype of the tensors given to the gradient collective."""
    examples_per_step: int | None = None
    """The global batch."""
    gathered_bytes_per_step: int | None = None
    """The part of `reduced_bytes_per_step` that each replica gets from every other one, unsummed (all-gather)."""
    dense_bytes_per_step: int | None = None
    """Bytes that the sparse gradients of a step (IndexedSlices) would have as dense tensors."""
    wire_type: str | None = None
    """Type of most of the bytes that are reduced, such as `bfloat16`."""
    micro_batches: int | None = None
    """Micro-batches whose gradients are added up for one all-reduce and one update; None for one."""
    local_steps: int | None = None
    """Updates that each replica makes by itself up to one all-reduce (local SGD); None for one."""
    dtype_policy: str | None = None
    """Keras's global dtype policy, such as `mixed_bfloat16`."""
    tensorflow: str | None = None
    keras: str | None = None
    warnings: tuple[str, ...] = ()
    collective: str | None = None
    """RING, NCCL or AUTO across hosts, LOCAL within one process."""
    checkpoint: Time | None = None
    """Time at which this task's newest checkpoint was written, also by an attempt before."""
    devices: Devices | None = None
    """Known from the first steps on."""
    empty_since: Time | None = None
    """End of the first of the newest steps in a row whose batches had no example; None where they have some, or where
    their number is not known."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Cross-replica reductions entered and left in this attempt; entered > left: the task is inside one."""

    entered: int
    left: int
    entered_at: Time | None = None
    """Time at which the newest one was entered."""
    between_steps: bool = False
    """True while the task is inside one that is no part of a step, such as that of the metrics of an epoch."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Work of the training process beside its steps; its time is in no phase. `end` is None while it lasts."""

    kind: ActivityKind
    begin: Time
    end: Time | None = None


@dataclass(frozen=True, slots=True)
class Display:
    """Display of a measured number: the task table's column, the task's page, its chart and the report follow it."""

    about: str
    """Explanation in at most 40 characters."""
    format_spec: str = ".4g"
    offset: int = 0
    """Number added to the value for people, who count from 1."""
    is_charted: bool = True
    """True where the console keeps ten minutes of it, for a chart."""


def _shown(about: str, format_spec: str = ".4g", offset: int = 0, is_charted: bool = True) -> Mapping[str, Display]:
    return {"display": Display(about, format_spec, offset, is_charted)}


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients of a task's own replicas that are not finite numbers, before they are reduced over all replicas.

    All but `steps` describe the first of the newest steps in a row whose gradients are not; None where they are.
    """

    steps: int = 0
    """Newest steps in a row whose gradients are not finite; 0 while they are."""
    since: Time | None = None
    sequence: int | None = None
    """Number of the step's gradient collective, as in `StepBatch`."""
    global_step: int | None = None
    replicas: tuple[int, ...] = ()
    """The replicas of the task that had such gradients, counted within it."""
    variables: int | None = None
    """Variables whose gradients were not finite."""
    checked: int | None = None
    """Variables whose gradients were checked."""
    first: str = ""
    """Name of the first of these variables, where it is known."""


@dataclass(frozen=True, slots=True)
class Training:
    """Progress of the training, mostly where Keras reports it. Numbers with a `Display` are shown under their names."""

    epoch: int | None = field(default=None, metadata=_shown("the pass over the data", ",.0f", 1, is_charted=False))
    """Counted from 0."""
    global_step: int | None = None
    """The optimizer's iterations."""
    loss: float | None = field(default=None, metadata=_shown("of its newest step"))
    finite: bool | None = None
    """True where the newest loss is a finite number; where it is not, `loss` is None."""
    learning_rate: float | None = field(default=None, metadata=_shown("of the optimizer", ".3g"))
    grad_norm: float | None = field(default=None, metadata=_shown("norm of the gradients, where logged"))
    """Norm of the gradients, where the program logs it under this name."""
    gradients: Gradients | None = None
    """Known where the probe checks them: in graphs of several replicas, on CPUs, that XLA does not compile."""


TRAINING_DISPLAYS: Mapping[str, Display] = {
    each.name: each.metadata["display"] for each in fields(Training) if each.metadata
}
"""Displays of the numbers of `Training`, by the names of their fields."""


def training_numbers(training: Training | None) -> dict[str, float]:
    """Return the known numbers that have a display, by the names of their fields, as people count them."""
    read = ((name, getattr(training, name, None), display.offset) for name, display in TRAINING_DISPLAYS.items())
    return {name: value + offset for name, value, offset in read if value is not None}


def _floats() -> array[float]:
    return array("f")


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Steps of one subject as columns of equal length; an empty column is unknown in every row.

    Row i is the step that ends when gradient collective `sequence[i]` is left, at `end[i]`; its phases, and the
    activities between, add up to the time since the collective before it was left. The subject is a task, or one of
    its replicas (`worker:1/replica:0`) or stages (`worker:1/stage:0`): a task's row lasts until its slowest replica is
    done.
    """

    generation: int
    attempt: int
    reporter: str
    subject: str
    sequence: Sequence[int]
    end: Sequence[float]
    global_step: Sequence[int] = ()
    update: Sequence[float] = field(default_factory=_floats)
    host: Sequence[float] = field(default_factory=_floats)
    input: Sequence[float] = field(default_factory=_floats)
    compute: Sequence[float] = field(default_factory=_floats)
    reduce: Sequence[float] = field(default_factory=_floats)
    lost: int = 0
    """Steps before this batch that could not be kept."""
    clamped: int = 0
    """Rows whose edges overlapped."""
    pull: Sequence[float] = field(default_factory=_floats)
    """The part of `compute` in which it waited for variables from parameter servers."""
    part: int = 0
    """Process of the attempt that measured: milliseconds from its host's boot until it began. Each numbers its steps
    from 0, and a later one has a larger part."""


@dataclass(frozen=True, slots=True)
class ServerTraffic:
    """Bytes that one worker's functions have fetched from one server, and sent to it: elements x dtype."""

    server: str
    pulled: int
    pushed: int


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """Functions that one worker has executed, since the start of the chief's attempt."""

    worker: str
    finished: int
    failed: int
    """Functions that ended in an error; those of a worker that died are executed again."""
    busy: float
    """Seconds in the finished ones, from the chief's call to the worker's answer."""
    idle: float
    """Seconds without a function."""
    since: Time | None = None
    """Time at which the chief asked what is not answered yet, None while nothing is asked."""
    traffic: tuple[ServerTraffic, ...] = ()


@dataclass(frozen=True, slots=True)
class Coordinator:
    """State of the chief under ParameterServerStrategy, which gives functions to workers and measures them."""

    at: Time
    queued: int | None
    """Functions that wait for a worker."""
    waited: float
    """Seconds that the program has waited for functions (`join`, `fetch`)."""
    waiting_since: Time | None = None
    workers: tuple[WorkerFunctions, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """Request to a training process to take TensorFlow's profile of itself for so many seconds, into a folder."""

    number: int
    seconds: float
    folder: str


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """Progress of the training process with the order of this number."""

    number: int
    stage: ProfileStage
    file: str = ""
    """The profile, once it is written."""
    message: str = ""
    """The reason why it failed."""


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
    """Seconds for which the first of them has waited."""
    blocked_in: str = ""
    """The kernel's function in which that one waits (`wchan`)."""
    frozen: bool = False
    """True while its cgroup is frozen, as by `docker pause`."""
    stands_at: str = ""
    """Clause with the line at which its program stands, once it has made no step for a while; empty if unknown."""

    @property
    def is_held(self) -> bool:
        """True where a debugger, its cgroup or the kernel keeps it from going on, or it is known where it stands."""
        return bool(self.traced or self.blocked or self.frozen or self.stands_at)


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that holds the task's working folder: bytes, and bytes a second since the sample before."""

    free: int
    """Bytes that the task may still write."""
    total: int
    read: float | None = None
    """Rate of all programs of the host, as `written`; None where it is no block device of this host."""
    written: float | None = None


@dataclass(frozen=True, slots=True)
class PeerLink:
    """TCP's own knowledge of the task's connections to one peer on another host, over the second before."""

    peer: str
    """The peer's task; where several tasks of a host may be it, all of them: `worker:2 or worker:3`."""
    sent: float
    """Bytes a second that the peer has acknowledged."""
    received: float
    busy: float
    """Share of the time in which bytes were not acknowledged, of the connection that carried most."""
    held: float
    """The share of the time in which the peer's receive window was full: its process did not read."""
    unsent: int
    """Bytes that wait in this host's kernel."""
    in_flight: int
    """Bytes that were sent and are not acknowledged."""
    round_trip: float
    delivery_rate: float
    """Bytes a second that the kernel measured last, of the connection that carried most."""
    app_limited: bool
    """True where the program had too little to send for more."""
    retransmitted: float | None = None
    """Share of the segments that were sent again because they were lost; None where none was sent."""
    unanswered: float | None = None
    """Seconds for which the peer's host has acknowledged nothing of what is sent again and again; None: it answers."""


UNHEARD = 4.0
"""Seconds without an answer of its host after which a neighbour is missed (chosen: two greetings in turn were due)."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Agent of another host that this one greets every two seconds: it tells a host that is cut off from a dead one."""

    task: str
    heard: Time | None
    """Time at which it answered last, on the clock of the host that greets; None where it never did."""
    round_trip: float | None = None
    """Seconds of that greeting."""
    reached: Time | None = None
    """Time at which its host answered last, if only that it takes a connection or that no agent is there."""


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
    """Those of the task's connections that were busiest."""
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
    """Share of the time in which its memory was read or written."""
    pcie_received: float | None = None
    """Bytes a second, over 20 ms; as `pcie_sent`, from the view of the GPU."""
    pcie_sent: float | None = None
    nvlinks: int | None = None
    """NVLinks that it has, wired or not."""
    nvlinks_up: int | None = None
    nvlink_errors: int | None = None
    """Replays, recoveries and CRC errors of all links since the driver was loaded."""
    topology: str = ""
    """Ways to the other GPUs of its host: `NVLink with 1-3`."""


@dataclass(frozen=True, slots=True)
class Counters:
    """State of the host and its GPUs at one moment."""

    host: HostSample | None = None
    gpus: tuple[GpuSample, ...] = ()

    def __bool__(self) -> bool:
        """Return True where either is known."""
        return self.host is not None or bool(self.gpus)


@dataclass(frozen=True, slots=True)
class Frame:
    """State that one agent knows at one moment."""

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
        """True where something keeps the task's process from going on, or it is known where its program stands."""
        return bool(self.host and self.host.task and self.host.task.is_held)

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
        """The host and its GPUs, to be kept without the rest."""
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
    """Placement of now as JSON; empty where tasks stay where the cluster file has them."""
    on_straggler: str = ""
    """Policy of that name in the agent's own cluster file; empty where it says nothing of recovery."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """Last words of an agent that ends."""

    task_goes_on: bool = False
    """True where it leaves a living task to the next agent."""
    moves: bool = False
    """True where tasks are placed anew: it goes on with the one that is placed there, or as a spare."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: the same object feeds the screen, the log and the report."""

    kind: str
    subject: str
    begin: Time
    end: Time | None
    severity: str
    """`info`, `warning`, `serious` or `critical`."""
    sentence: str
    evidence: dict[str, float | str | None] = field(default_factory=dict)
