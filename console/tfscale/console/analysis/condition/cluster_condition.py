"""Condition of the cluster, judged before any diagnosis: findings about a training cluster are false of a still one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from tfscale.console.analysis.condition.stillness import Stillness, stillness_of
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.side_by_side import trainings_apart
from tfscale.core.cluster.task import Role
from tfscale.core.failure.hang_limits import SHORTEST_STANDSTILL, USUAL_STEPS
from tfscale.core.records.probe_status import ProbeState

CERTAIN = 1.0
"""Seconds without a step up to which the cluster counts as training though a process is stopped: one frame. With
less, a frame that is late would be a standstill; with more, a stopped process is named as much later."""
FIRST_STEPS = 10.0
"""Seconds up to which a cluster with an unknown usual step counts as training: steps may take some seconds each, and
the first steps longer."""
PAUSES = 1.5
"""Multiple of a recurring pause, such as reading between epochs, up to which a pause is no news: recurring pauses
differ by less than half from each other."""
_PAUSES_KEPT, _PAUSES_NEEDED = 8, 3
"""Newest pauses whose median is usual, and their least number: two may be alike by chance, and old ones are of another
phase of the training."""


class Condition(StrEnum):
    """Condition of a cluster."""

    STARTING = "starting"
    """No task has made a step in its present attempt."""
    TRAINING = "training"
    STILL = "still"
    """It has trained, and makes no steps."""
    ENDED = "ended"
    """All tasks that train have ended."""
    UNMEASURED = "unmeasured"
    """Its steps cannot be measured."""
    UNKNOWN = "unknown"
    """No task that trains is heard."""


@dataclass(frozen=True, slots=True)
class ClusterCondition:
    """The condition at one moment."""

    kind: Condition = Condition.TRAINING
    stillness: Stillness | None = None
    """The time without a step; None while it trains."""
    usual_step: float | None = None
    """Seconds, as before a stillness."""
    usual_pause: float = 0.0
    """Seconds of a recurring pause between steps; 0 without one."""
    resumed: float | None = None
    """End of the newest stillness, Unix seconds: a rate must not include steps from before it."""

    @property
    def may_be_judged(self) -> bool:
        """True where counters and steps belong to a cluster at work."""
        return self.kind in (Condition.TRAINING, Condition.UNMEASURED)


@dataclass(slots=True)
class ConditionWatch:
    """Memory of the usual step and of usual pauses, against which a time without a step is judged."""

    _usual: float | None = None
    _pauses: deque[float] = field(default_factory=lambda: deque(maxlen=_PAUSES_KEPT))
    _longest: float = 0.0
    """Seconds of the present pause; 0 without a pause, or where its reason is no habit."""
    _is_still: bool = False
    _resumed: float | None = None

    def judge(self, tasks: Sequence[ObservedTask], step_time: float | None, now: float) -> ClusterCondition:
        """Return the condition at `now`, Unix seconds. `step_time` is the median of the newest steps, None unknown."""
        self._usual = step_time if step_time is not None else self._usual
        meeting = [task for task in tasks if task.meets]
        leading = _leading(tasks) or meeting
        if leading and all(task.is_over for task in leading):
            return ClusterCondition(Condition.ENDED)
        trained = [task for task in tasks if task.progressed is not None and task.task.role is not Role.EVALUATOR]
        if not trained:
            self._usual = self._resumed = None
            return ClusterCondition(_before_the_first_step(meeting, now))
        if _are_unmeasured(trained):
            return ClusterCondition(Condition.UNMEASURED)
        quiet = _quiet(trained, now)
        if quiet is None:
            return ClusterCondition(Condition.UNKNOWN)
        since, seconds = quiet
        return self._with_steps(tasks, since, seconds, now)

    def _with_steps(self, tasks: Sequence[ObservedTask], since: float, seconds: float, now: float) -> ClusterCondition:
        pause = median(self._pauses) if len(self._pauses) >= _PAUSES_NEEDED else 0.0
        usual = FIRST_STEPS if self._usual is None else USUAL_STEPS * self._usual
        # Trainings that no strategy joins do not stop with each other.
        stopped = [task for task in tasks if task.meets and task.stopped and task.running]
        is_stopped = bool(stopped) and not trainings_apart(tasks)
        if seconds <= (CERTAIN if is_stopped else max(SHORTEST_STANDSTILL, usual)):
            self._learn(since)
            return ClusterCondition(Condition.TRAINING, None, self._usual, pause, self._resumed)
        stillness = stillness_of(tasks, since, seconds, now)
        self._longest = seconds if stillness.is_habit else 0.0
        if seconds <= PAUSES * pause:
            return ClusterCondition(Condition.TRAINING, None, self._usual, pause, self._resumed)
        self._is_still = True
        return ClusterCondition(Condition.STILL, stillness, self._usual, pause)

    def _learn(self, at: float) -> None:
        """Remember the pause that a sign of work has ended at `at`."""
        if self._is_still:
            self._is_still, self._resumed = False, at
        if self._longest:
            self._pauses.append(self._longest)
        self._longest = 0.0


def _leading(tasks: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the chief whose end is the end of training on parameter servers; None without servers."""
    is_served = any(task.task.role is Role.PS for task in tasks)
    return [task for task in tasks if task.task.role is Role.CHIEF] if is_served else []


def _before_the_first_step(meeting: Sequence[ObservedTask], now: float) -> Condition:
    if meeting and all(task.is_silent(now) for task in meeting):
        return Condition.UNKNOWN
    return Condition.UNMEASURED if _are_unmeasured(meeting) else Condition.STARTING


def _are_unmeasured(tasks: Sequence[ObservedTask]) -> bool:
    probes = [task.probe.state for task in tasks if task.probe and task.running]
    return bool(probes) and all(state in (ProbeState.DISABLED, ProbeState.ABSENT) for state in probes)


def _quiet(trained: Sequence[ObservedTask], now: float) -> tuple[float, float] | None:
    """Return (time of the newest sign of work, seconds since then); None while all agents that would know are mute."""
    at_work = [task for task in trained if task.running and not task.is_silent(now)]
    signs = [(task.at - task.active, task.active) for task in at_work if task.at is not None and task.active]
    if signs:
        seconds, since = min(signs)
        return since, seconds
    if any(task.is_over for task in trained):
        since = max(task.active or 0.0 for task in trained)
        return since, now - since
    return None
