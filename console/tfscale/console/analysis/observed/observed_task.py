"""The newest state of each task as its agent reported it: input of the rules about tasks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from tfscale.core.cluster.restart import governing
from tfscale.core.cluster.strategy import DEFAULT
from tfscale.core.cluster.task import Role, Task
from tfscale.core.failure.task_signals import TaskSignal
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Counters
from tfscale.core.records.probe_status import ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import Coordinator, StepBatch
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.records.training import Gradients
from tfscale.core.report_schedule import PERIOD
from tfscale.core.validation import is_moment

WARM_UP_STEPS = 5
"""First steps of every attempt that no rule reads: tracing, empty caches, first batches."""

_GAP = 1.0
"""Seconds of a batch below which its steps are not read one by one: shorter gaps decide no hang."""

_CLOCK_SET = 30.0
"""Seconds by which the time from one frame to the next may differ from the usual. A larger difference means that the
clock was set or the host suspended: an agent that is held up is late by less."""

IDLE_CORES = 0.05
"""Cores up to which a process without steps counts as idle: a waiting process took 0.00 to 0.02. Much more would
include a process that reads its data slowly."""

AT_REST = 10.0
"""Seconds without CPU after which a process that has used some is no longer at work: one that computes reads a file or
waits for a server in between. With less such a wait would be taken for the end of its work, with more a process that
has got stuck is named later."""

SILENT = 3.0
"""Seconds without a frame after which an agent counts as silent, and its task's facts as old. An agent sends a frame
a second: with less a late frame would be a silence, with more old facts are shown as new."""

ALIVE = (TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)


@dataclass(slots=True)
class ObservedTask:
    """One task and its agent, as of the newest frame. Times are Unix seconds on the clock of the task's host."""

    task: Task
    name: str = field(init=False)
    meets: bool = field(init=False)
    """True for tasks that take part in the gradient collectives."""
    is_joined: bool | None = None
    """True once a strategy has joined steps of this attempt with other tasks, False where none has; None unknown."""
    up: bool = False
    """True while there is a connection to the agent."""
    since: float | None = None
    """Time at which the connection came or went, on the observer's clock."""
    has_left: bool = False
    """True where the agent has left its task to the next agent, and the next has not come."""
    cut: tuple[float, float] | None = None
    """Begin and end of the last time without a connection, on the observer's clock."""
    at: float | None = None
    """Time of the newest frame."""
    sequence: int | None = None
    """Sequence of the newest frame."""
    clock_set: float = 0.0
    """Seconds by which the clock of its host was set between the two newest frames; 0 where it was not."""
    heard: float | None = None
    """Time of the evaluation at which its newest frame was new, on the observer's clock."""
    is_news: bool = False
    """True where a frame has come since that evaluation."""
    status: TaskStatus | None = None
    last_end: Exit | None = None
    """End of the attempt before its present one; None where it was not seen."""
    probe: ProbeStatus | None = None
    saved: float | None = None
    """Time of its newest checkpoint that was told so far, also by an attempt before."""
    collective: Collective | None = None
    coordinator: Coordinator | None = None
    stopped: bool = False
    """True while a signal has stopped its process."""
    held: Counters | None = None
    """Counters of its host that show what holds its process up, or where its program stands."""
    is_killed_for_memory: bool = False
    """True where its process was killed in a second in which the host's kernel killed processes for want of memory."""
    cores: float | None = None
    """Cores that its processes use."""
    idle_since: float | None = None
    """Begin of the time in which the processes use next to no CPU; None while they use some, or where unknown."""
    progressed: float | None = None
    """End of its newest step in this attempt."""
    steps: int = 0
    """Steps that it has made in this attempt."""
    longest_gap: float = 0.0
    """The longest normal time from one step to the next, after the warm-up, seconds."""
    is_held_up: bool = False
    """True from an unusual stillness until the next step: then the gap is not learnt as normal."""
    activity: ActivityKind | None = None
    """Its present activity, None while it makes steps."""
    activity_since: float | None = None
    """Begin of its present activity."""
    evaluated: float | None = None
    """Begin of the last evaluation of this attempt."""
    occupied: float | None = None
    """End of the last compile, checkpoint or evaluation of this attempt."""
    not_finite_since: float | None = None
    """Time at which its loss was first no finite number, None while it is one."""
    not_finite_step: int | None = None
    gradients: Gradients | None = None
    """State of its own gradients before they are reduced; None where they are not checked."""
    gpus: int = 0
    """GPUs of its host, by NVML; counted once the probe has told what TensorFlow sees."""

    def __post_init__(self) -> None:
        self.name = str(self.task)
        self.meets = self.task.role in (Role.CHIEF, Role.WORKER)

    @property
    def state(self) -> TaskState | None:
        return self.status.state if self.status else None

    @property
    def running(self) -> bool:
        return self.status is not None and self.status.state is TaskState.RUNNING

    @property
    def is_inside(self) -> bool:
        """True while it is in a collective that it has not left."""
        return self.collective is not None and self.collective.entered > self.collective.left

    @property
    def age(self) -> float:
        """Seconds from the start of its process to its newest frame; 0 where unknown."""
        started = self.status.started if self.status else None
        return 0.0 if started is None or self.at is None else max(0.0, self.at - started)

    @property
    def is_at_work(self) -> bool:
        """True while its processes use CPU, or have used some a moment ago; False where unknown."""
        if self.cores is None or self.at is None:
            return False
        return self.cores > IDLE_CORES or (self.idle_since is not None and self.at - self.idle_since < AT_REST)

    @property
    def is_over(self) -> bool:
        """True once its process has ended, or was lost with its shim."""
        return self.status is not None and self.status.is_over

    @property
    def ended_well(self) -> bool:
        return bool(self.status and self.status.exit and self.status.exit.well)

    @property
    def ended_at(self) -> float:
        """Unix seconds at which its process ended, 0 where that is not known."""
        return self.status.exit.at if self.status and self.status.exit else 0.0

    @property
    def attempt(self) -> tuple[int, int]:
        """(generation, attempt)."""
        return (self.status.generation, self.status.attempt) if self.status else (-1, -1)

    @property
    def active(self) -> float | None:
        """Unix seconds of its last sign of work; None before its first step.

        It is the end of the newest step, or of a later compilation, checkpoint or evaluation.
        """
        return None if self.progressed is None else max(self.progressed, self.occupied or self.progressed)

    def note_link(self, up: bool, at: float) -> None:
        """Note that the connection to its agent came or went, at `at` on the observer's clock."""
        if up and self.since is not None and not self.up and self.at is not None:
            self.cut = (self.since, at)
        if self.since is None or self.up != up:
            self.up, self.since = up, at

    def note_heard(self, now: float) -> None:
        """Return the wrong clocks by the (n, k) `ends` of steps; `before` has those wrong at the last look."""
        if self.is_news:
            self.heard, self.is_news = now, False

    def is_silent(self, now: float) -> bool:
        """Decide whether its agent is silent at `now`, so that its newest frame is old."""
        return not self.up or self.at is None or (self.heard is not None and now - self.heard > SILENT)

    def observe(self, frame: Frame) -> None:
        """Take in a frame of the task's agent."""
        self.is_news = True
        before, attempt = self.attempt, (frame.status.generation, frame.status.attempt)
        if frame.probe is not None and frame.probe.devices is not None:
            self.gpus = max(self.gpus, frame.gpu_count)
        self.clock_set = self._follow_clock(frame)
        if attempt != before:
            self.last_end = self.status.exit if self.status else None
        self.at, self.sequence, self.status, self.probe = frame.at, frame.sequence, frame.status, frame.probe
        self.saved = (frame.probe.checkpoint if frame.probe else None) or self.saved
        if attempt != before:
            self.progressed, self.longest_gap, self.collective, self.steps = None, 0.0, None, 0
            self.is_joined = self.not_finite_since = self.not_finite_step = self.gradients = None
            self.occupied = self.evaluated = None
        if frame.probe is not None and frame.probe.state is ProbeState.MEASURING:
            self.is_joined = bool(self.is_joined) or governing(frame.probe) != DEFAULT.name
        self._fold_activities(frame)
        self._fold_loss(frame)
        if frame.collective and self.collective and frame.collective.left > self.collective.left:
            self.progressed = frame.at
        self.collective, self.coordinator = frame.collective, frame.coordinator
        self.stopped = frame.is_stopped
        self.held = frame.counters if frame.is_held else None
        self._note_memory_kill(frame)
        self.cores = frame.cores
        is_idle = self.cores is not None and self.cores <= IDLE_CORES
        self.idle_since = (self.idle_since or frame.at) if is_idle else None
        for batch in frame.steps:
            if (batch.generation, batch.attempt) == attempt and len(batch.end):
                self._fold_steps(batch, learns_gaps=not self.clock_set)
        if self.progressed is None and frame.collective is not None and frame.collective.left:
            # Its steps were sent to nobody who is here: it has made some, the last of them before this moment.
            self.progressed = frame.collective.entered_at or frame.status.started

    def _note_memory_kill(self, frame: Frame) -> None:
        end = frame.status.exit
        if end is None or end.signal != TaskSignal.SIGKILL:
            self.is_killed_for_memory = False
        elif (host := frame.counters.host) is not None:
            self.is_killed_for_memory |= bool(host.memory_kills)

    def _fold_activities(self, frame: Frame) -> None:
        if not frame.activities:
            self.activity = self.activity_since = None
            return
        lasting = next((activity for activity in frame.activities if activity.end is None), None)
        self.activity, self.activity_since = (lasting.kind, lasting.begin) if lasting else (None, None)
        evaluations = [each.begin for each in frame.activities if each.kind is ActivityKind.EVALUATION]
        self.evaluated = max([*evaluations, self.evaluated or 0.0]) or None
        busy = (activity for activity in frame.activities if activity.kind is not ActivityKind.IDLE)
        ends = [activity.end for activity in busy if activity.end is not None]
        self.occupied = max([*ends, self.occupied or 0.0]) or None

    def _fold_loss(self, frame: Frame) -> None:
        if frame.training is None:
            return
        self.gradients = frame.training.gradients or self.gradients
        if frame.training.finite is None:
            return
        if frame.training.finite:
            self.not_finite_since = self.not_finite_step = None
        elif self.not_finite_since is None:
            self.not_finite_since, self.not_finite_step = frame.at, frame.training.global_step

    def _follow_clock(self, frame: Frame) -> float:
        """Move all kept times onto the host's present clock; return the seconds by which it was set, mostly 0.

        A clock set by an hour makes no hour without a step: the jump lies between two successive frames.
        """
        if self.at is None or self.sequence is None or frame.sequence != self.sequence + 1:
            return 0.0
        jump = frame.at - self.at - PERIOD
        if abs(jump) <= _CLOCK_SET:
            return 0.0
        self.progressed = self.progressed + jump if self.progressed is not None else None
        self.occupied = self.occupied + jump if self.occupied is not None else None
        return jump

    def _fold_steps(self, batch: StepBatch, learns_gaps: bool) -> None:
        self.steps = max(self.steps, int(batch.sequence[-1]) + 1)
        ends: Sequence[float] = batch.end
        if not (is_moment(ends[0]) and is_moment(ends[-1])):
            ends = _valid(ends)
        if not len(ends):
            return
        was_held_up, self.is_held_up = self.is_held_up, False
        if batch.sequence[0] >= WARM_UP_STEPS and learns_gaps and not was_held_up:
            before = ends[0] - self.progressed if self.progressed is not None else 0.0
            self.longest_gap = max(self.longest_gap, before)
            if ends[-1] - ends[0] > _GAP:
                ends = _valid(ends)
                self.longest_gap = max(self.longest_gap, *map(operator.sub, islice(ends, 1, None), ends))
        self.progressed = max(self.progressed or 0.0, ends[-1])


def _valid(ends: Sequence[float]) -> list[float]:
    return [end for end in ends if is_moment(end)]
