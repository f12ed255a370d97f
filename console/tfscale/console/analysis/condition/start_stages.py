"""Stages of a start, from the order to the first step, and the seconds that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_started import joined
from tfscale.core.records.probe_status import ActivityKind, ProbeState

JUST = 10.0
"""Seconds from its start for which a process has just begun, as long as its agent has found no more: with less a start
would be said not to report, with more one that does not would be told late."""
_WHOLE = 3.0
"""Age of a process at its first frame up to which the time before belongs to that frame's stage: agents look at a new
process each second. With more, a console that hears nothing of the beginning would make it up."""


class Stage(IntEnum):
    """Stage of a start, the earliest first."""

    ORDERED = auto()
    BEGUN = auto()
    UNHEARD = auto()
    BEFORE = auto()
    """Its process runs, and has not imported TensorFlow."""
    IMPORTING = auto()
    PREPARING = auto()
    RESTORING = auto()
    EVALUATING = auto()
    BUILDING = auto()
    MEETING = auto()
    """It is in the first all-reduce."""


_ACTIVITIES = {
    ActivityKind.CHECKPOINT: Stage.RESTORING,
    ActivityKind.EVALUATION: Stage.EVALUATING,
    ActivityKind.COMPILE: Stage.BUILDING,
}


@dataclass(frozen=True, slots=True)
class Start:
    """Start of one task so far."""

    stage: Stage
    seconds: Mapping[Stage, float]
    """Seconds by stage, in the order in which the task came to each; stages of which no time is known are left out."""

    @property
    def lasting(self) -> float:
        """Seconds of the present stage; 0 where unknown."""
        return self.seconds.get(self.stage, 0.0)


def stage_of(task: ObservedTask) -> Stage:
    """Return how far a task is that has made no step."""
    if not task.running:
        return Stage.ORDERED
    if not joined(task):
        return _unjoined(task)
    if task.activity in _ACTIVITIES:
        return _ACTIVITIES[task.activity]
    return Stage.MEETING if task.is_inside else Stage.PREPARING


def _unjoined(task: ObservedTask) -> Stage:
    """Return the stage of a process whose probe does not report, as its agent sees it."""
    if task.probe is not None and task.probe.state is ProbeState.LOADED:
        return Stage.IMPORTING if task.probe.is_importing else Stage.PREPARING
    if task.probe is not None and task.probe.state is ProbeState.EXPECTED:
        return Stage.BEFORE
    return Stage.BEGUN if task.age < JUST else Stage.UNHEARD


@dataclass(slots=True)
class _Trail:
    """Stages of one attempt so far."""

    attempt: tuple[int, int]
    at: float
    """Time of the newest frame, Unix seconds on the host's clock."""
    stage: Stage
    seconds: dict[Stage, float] = field(default_factory=dict)


class StartWatch:
    """Memory of the stages of all tasks that start."""

    def __init__(self) -> None:
        self._trails: dict[str, _Trail] = {}

    def observe(self, task: ObservedTask) -> None:
        """Take in the newest frame of a task, which has observed it already."""
        if task.progressed is not None or task.is_over or task.at is None:
            self._trails.pop(task.name, None)
            return
        stage, trail = stage_of(task), self._trails.get(task.name)
        if trail is None or trail.attempt != task.attempt:
            trail = self._trails[task.name] = _Trail(task.attempt, task.at, stage)
            if task.running and task.age <= _WHOLE:
                trail.seconds[stage] = task.age
            return
        seconds = max(0.0, task.at - trail.at)
        trail.seconds[trail.stage] = trail.seconds.get(trail.stage, 0.0) + seconds
        trail.at, trail.stage = task.at, stage
        trail.seconds.setdefault(stage, 0.0)

    def starts(self) -> dict[str, Start]:
        """Return the starts of all tasks that have made no step, by name."""
        return {name: Start(trail.stage, dict(trail.seconds)) for name, trail in self._trails.items()}
