"""What the agents said last of each task: the rules about tasks (crash, hang, not started) read it. No numpy."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from tfscale.core.validation import is_moment

WARM_UP_STEPS = 5
"""First steps of every attempt that nothing is concluded from: tracing, caches, first batches."""

_GAP = 1.0
"""Seconds from one step to the next that are worth looking for: shorter ones decide nothing."""

ALIVE = (TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)


@dataclass(slots=True)
class TaskView:
    """One task and its agent, as of the newest frame."""

    task: Task
    name: str = field(init=False)
    meets: bool = field(init=False)
    """Whether it takes part in the gradient collectives."""
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
    occupied: float | None = None
    """When the last compile, checkpoint or evaluation of this attempt ended."""
    not_finite_since: float | None = None
    """Since when its loss is no number."""
    not_finite_step: int | None = None

    def __post_init__(self) -> None:
        self.name = str(self.task)
        self.meets = self.task.role in (Role.CHIEF, Role.WORKER)

    @property
    def state(self) -> TaskState | None:
        return self.status.state if self.status else None

    @property
    def running(self) -> bool:
        return self.state is TaskState.RUNNING

    @property
    def attempt(self) -> tuple[int, int]:
        """(generation, attempt)."""
        return (self.status.generation, self.status.attempt) if self.status else (-1, -1)

    @property
    def active(self) -> float | None:
        """When it last ended a step, or what came after it; None before its first step."""
        return None if self.progressed is None else max(self.progressed, self.occupied or self.progressed)

    def fold(self, frame: Frame) -> None:
        before, attempt = self.attempt, (frame.status.generation, frame.status.attempt)
        self.at, self.status, self.probe = frame.at, frame.status, frame.probe
        if attempt != before:
            self.progressed, self.longest_gap, self.collective = None, 0.0, None
            self.not_finite_since = self.not_finite_step = self.occupied = None
        self._look_at_activities(frame)
        self._look_at_loss(frame)
        if frame.collective and self.collective and frame.collective.left > self.collective.left:
            self.progressed = frame.at
        self.collective, self.coordinator = frame.collective, frame.coordinator
        self.stopped = frame.is_stopped
        for batch in frame.steps:
            if (batch.generation, batch.attempt) == attempt and len(batch.end):
                self._progress(batch)

    def _look_at_activities(self, frame: Frame) -> None:
        if not frame.activities:
            self.activity = None
            return
        self.activity = next((each.kind for each in frame.activities if each.end is None), None)
        ends = [each.end for each in frame.activities if each.end is not None and each.kind is not ActivityKind.IDLE]
        self.occupied = max([*ends, self.occupied or 0.0]) or None

    def _look_at_loss(self, frame: Frame) -> None:
        if frame.training is None or frame.training.finite is None:
            return
        if frame.training.finite:
            self.not_finite_since = self.not_finite_step = None
        elif self.not_finite_since is None:
            self.not_finite_since, self.not_finite_step = frame.at, frame.training.global_step

    def _progress(self, batch: StepBatch) -> None:
        ends: Sequence[float] = batch.end
        if not (is_moment(ends[0]) and is_moment(ends[-1])):
            ends = _known(ends)
        if not len(ends):
            return
        if batch.sequence[0] >= WARM_UP_STEPS:
            before = ends[0] - self.progressed if self.progressed is not None else 0.0
            self.longest_gap = max(self.longest_gap, before)
            if ends[-1] - ends[0] > _GAP:
                ends = _known(ends)
                self.longest_gap = max(self.longest_gap, *map(operator.sub, islice(ends, 1, None), ends))
        self.progressed = max(self.progressed or 0.0, ends[-1])


def _known(ends: Sequence[float]) -> list[float]:
    return [end for end in ends if is_moment(end)]
