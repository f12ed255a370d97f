"""What travels from agents to consoles, into recordings and exports: plain frozen records, one schema for all.

Times are Unix seconds on the clock of the agent's host, durations seconds, ratios 0 to 1, `None` unknown. In the
columns of `StepBatch`, NaN is unknown. The wire (protos/tfscale/v1) has the same fields under the same names;
`docs/schema.md` explains each.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

SCHEMA_VERSION = 1
"""Of the stream, the recording and the export. Rises when a reader of the older one would misread the newer."""

PHASES = ("update", "host", "input", "compute", "reduce")
"""The five parts of a step, in the order of time."""

LAG_PHASES = PHASES[:-1]
"""What a worker does by itself, between leaving one all-reduce and entering the next."""


class TaskState(StrEnum):
    """The life of a task, as its agent sees it; docs/ownership.md has the transitions."""

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
    """Whether the probe inside the training process measures."""

    WAITING = "waiting"
    MEASURING = "measuring"
    DISABLED = "disabled"


class ActivityKind(StrEnum):
    """What a training process does when it does not train."""

    COMPILE = "compile"
    """A graph is traced."""
    CHECKPOINT = "checkpoint"
    """A checkpoint or a model is written or read."""
    EVALUATION = "evaluation"
    """Batches that train nothing."""
    IDLE = "idle"
    """None of these, for long, between two steps."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a task's process ended: a code or a signal, both None where it could not be read."""

    code: int | None
    signal: int | None
    at: float
    requested: bool = False
    """Whether the agent had asked the task to end."""
    log: tuple[str, ...] = ()
    """The end of its log, and the lines before that tell why it ended."""

    @property
    def well(self) -> bool:
        """Whether it exited 0, or was asked to end."""
        return self.requested or self.code == 0


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Where a task stands. `generation` is the cluster's, `attempt` counts this task's starts within it, from 1."""

    state: TaskState
    generation: int = 0
    attempt: int = 0
    pid: int | None = None
    started: float | None = None
    exit: Exit | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """What the probe says of itself and of the program that it measures."""

    state: ProbeState
    message: str = ""
    strategy: str | None = None
    replicas: int | None = None
    local_replicas: int | None = None
    ranks: int | None = None
    """Participants of the gradient collective."""
    reduced_bytes_per_step: int | None = None
    """Elements x dtype of the tensors handed to the gradient collective."""
    examples_per_step: int | None = None
    """The global batch."""
    tensorflow: str | None = None
    keras: str | None = None
    warnings: tuple[str, ...] = ()
    collective: str | None = None
    """RING, NCCL or AUTO across hosts, LOCAL within one process."""
    checkpoint: float | None = None
    """When this task's newest checkpoint was written, also of an attempt before."""


@dataclass(frozen=True, slots=True)
class Collective:
    """Cross-replica reductions entered and left in this attempt; entered > left: the task is inside one."""

    entered: int
    left: int
    entered_at: float | None = None


@dataclass(frozen=True, slots=True)
class Activity:
    """What the training process did instead of steps; its time is in no phase. `end` is None while it lasts."""

    kind: ActivityKind
    begin: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Training:
    """How the training goes, where Keras says so."""

    epoch: int | None = None
    """From 0."""
    global_step: int | None = None
    """The optimizer's iterations."""
    loss: float | None = None
    finite: bool | None = None
    """Whether the newest loss is a number; where it is not, `loss` is None."""
    learning_rate: float | None = None


def _floats() -> array[float]:
    return array("f")


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Steps of one subject as columns of equal length; an empty column is unknown in every row.

    Row i is the step that ends when gradient collective `sequence[i]` is left, at `end[i]`; its phases, and the
    activities between, add up to the time since the collective before it was left. The subject is a task, or one of
    its replicas (`worker:1/replica:0`): a task's row lasts to the slowest of them.
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
    clamped: int = 0
    pull: Sequence[float] = field(default_factory=_floats)
    """The part of `compute` in which it waited for variables from parameter servers."""


@dataclass(frozen=True, slots=True)
class ServerTraffic:
    """Bytes that one worker's functions have fetched from one server, and sent it: elements x dtype."""

    server: str
    pulled: int
    pushed: int


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """The functions that one worker has executed, since the start of the chief's attempt."""

    worker: str
    finished: int
    failed: int
    """Ended in an error; those of a worker that died are executed again."""
    busy: float
    """Seconds in the finished ones, from the chief's call to the worker's answer."""
    idle: float
    """Seconds without a function."""
    since: float | None = None
    """When the chief asked what is not answered yet, None while nothing is asked."""
    traffic: tuple[ServerTraffic, ...] = ()


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Under ParameterServerStrategy, of the chief, which hands out functions and measures those who execute them."""

    at: float
    """When the chief said so."""
    queued: int | None
    """Functions that wait for a worker."""
    waited: float
    """Seconds that the program has waited for functions."""
    waiting_since: float | None = None
    workers: tuple[WorkerFunctions, ...] = ()


@dataclass(frozen=True, slots=True)
class Pressure:
    """Linux pressure stall information, `some avg10`, 0 to 1."""

    cpu: float | None
    memory: float | None
    io: float | None


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface: bytes a second each way; `speed` in bits a second is the driver's claim."""

    name: str
    received: float
    sent: float
    speed: float | None


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """What the task's process tree uses: `cpu` in cores, `memory` in resident bytes."""

    processes: int
    threads: int
    cpu: float | None
    memory: int
    stopped: int = 0
    """Processes that a signal has stopped."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """The host at one moment; rates are since the sample before."""

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
    """Seconds a second that the task's cgroup was throttled."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment: watts, degrees Celsius, hertz, bytes; `clock_event_reasons` is NVML's bit mask."""

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


@dataclass(frozen=True, slots=True)
class Counters:
    """The host and its GPUs at one moment."""

    host: HostSample | None = None
    gpus: tuple[GpuSample, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is said of either."""
        return self.host is not None or bool(self.gpus)


@dataclass(frozen=True, slots=True)
class Frame:
    """What one agent knows at one moment."""

    sequence: int
    at: float
    status: TaskStatus
    probe: ProbeStatus | None = None
    collective: Collective | None = None
    host: HostSample | None = None
    gpus: tuple[GpuSample, ...] = ()
    steps: tuple[StepBatch, ...] = ()
    dropped: int = 0
    training: Training | None = None
    activities: tuple[Activity, ...] = ()
    """Ended since the frame before, or still lasting."""
    coordinator: Coordinator | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped a process of the task."""
        return bool(self.host and self.host.task and self.host.task.stopped)

    @property
    def counters(self) -> Counters:
        """What it says of the host and its GPUs, to be kept without the rest."""
        return Counters(self.host, self.gpus)

    def with_steps(self, steps: tuple[StepBatch, ...]) -> Frame:
        """The same with other steps, or none."""
        return replace(self, steps=steps)


@dataclass(frozen=True, slots=True)
class Description:
    """Who an agent is."""

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
    started: float
    pid: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: the same object feeds the screen, the log and the report."""

    kind: str
    subject: str
    begin: float
    end: float | None
    severity: str
    """`info`, `warning`, `serious` or `critical`."""
    sentence: str
    evidence: dict[str, float | str | None] = field(default_factory=dict)
