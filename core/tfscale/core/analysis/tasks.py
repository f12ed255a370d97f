"""What the agents said last of each task: the rules about tasks (crash, hang, not started) read it. No numpy."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import islice

from tfscale.core.records import (
    ActivityKind,
    Collective,
    Coordinator,
    Frame,
    ProbeStatus,
    StepBatch,
    TaskState,
    TaskStatus,
)
from tfscale.core.task import Role, Task

WARM_UP_STEPS = 5
"""First steps of every attempt that nothing is concluded from: tracing, caches, first batches."""

ALIVE = (TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)


@dataclass(slots=True)
class TaskView:
    """One task and its agent, as of the newest frame."""

    task: Task
    up: bool = False
    """Whether there is a connection to the agent."""
    since: float | None = None
    """When the connection came or went."""
    at: float | None = None
    """Of the newest frame, on the clock of the agent's host, like all that follows."""
    status: TaskStatus | None = None
    probe: ProbeStatus | None = None
    collective: Collective | None = None
    coordinator: Coordinator | None = None
    stopped: bool = False
    """Whether a signal has stopped its process."""
    progressed: float | None = None
    """When its newest step ended, in this attempt."""
    longest_gap: float = 0.0
    """The longest that it went from one step to the next, after the warm-up."""
    activity: ActivityKind | None = None
    """What it does at present instead of steps."""
    not_finite_since: float | None = None
    """Since when its loss is no number."""
    not_finite_step: int | None = None

    @property
    def name(self) -> str:
        return str(self.task)

    @property
    def state(self) -> TaskState | None:
        return self.status.state if self.status else None

    @property
    def running(self) -> bool:
        return self.state is TaskState.RUNNING

    @property
    def meets(self) -> bool:
        """Whether it takes part in the gradient collectives."""
        return self.task.role in (Role.CHIEF, Role.WORKER)

    @property
    def attempt(self) -> tuple[int, int]:
        """(generation, attempt)."""
        return (self.status.generation, self.status.attempt) if self.status else (-1, -1)

    def fold(self, frame: Frame) -> None:
        before = self.attempt
        self.at, self.status, self.probe = frame.at, frame.status, frame.probe
        if self.attempt != before:
            self.progressed, self.longest_gap, self.collective = None, 0.0, None
            self.not_finite_since = self.not_finite_step = None
        self.activity = next((each.kind for each in frame.activities if each.end is None), None)
        self._look_at_loss(frame)
        if frame.collective and self.collective and frame.collective.left > self.collective.left:
            self.progressed = frame.at
        self.collective, self.coordinator = frame.collective, frame.coordinator
        self.stopped = bool(frame.host and frame.host.task and frame.host.task.stopped)
        for batch in frame.steps:
            if (batch.generation, batch.attempt) == self.attempt and len(batch.end):
                self._progress(batch)

    def _look_at_loss(self, frame: Frame) -> None:
        if frame.training is None or frame.training.finite is not False:
            self.not_finite_since = self.not_finite_step = None
        elif self.not_finite_since is None:
            self.not_finite_since, self.not_finite_step = frame.at, frame.training.global_step

    def _progress(self, batch: StepBatch) -> None:
        ends = batch.end
        if batch.sequence[0] >= WARM_UP_STEPS:
            before = ends[0] - self.progressed if self.progressed is not None else 0.0
            within = max(map(operator.sub, islice(ends, 1, None), ends), default=0.0)
            self.longest_gap = max(self.longest_gap, before, within)
        self.progressed = max(self.progressed or 0.0, ends[-1])
