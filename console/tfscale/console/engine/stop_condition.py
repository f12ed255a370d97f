"""Conditions that end a console which a script started: the training finished, failed, or has a straggler."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.engine.state import ClusterState
from tfscale.core.cluster.task import Role

CONDITIONS = ("finished", "failed", "straggler")
_TRAINING = (Role.CHIEF, Role.WORKER)
_SETTLE = 6.0
"""Seconds to wait for the reason of a failure, which comes 3 s after it while other tasks still live."""


@dataclass(slots=True)
class StopCondition:
    """End of a run: a condition holds, none can hold any more, or `seconds` of training have passed."""

    conditions: tuple[str, ...] = ()
    seconds: float | None = None
    """Counted from the time at which every training task has reported a step."""
    met: str | None = field(default=None, init=False)
    """Condition that held."""
    has_ended: bool = field(default=False, init=False)
    """True once all training tasks have ended."""
    timed_out: bool = field(default=False, init=False)
    """True once `seconds` have passed."""
    failed: TaskView | None = field(default=None, init=False)
    """Task by which `failed` held."""
    _due: float | None = field(default=None, init=False)
    _held_since: float | None = field(default=None, init=False)
    """Time since which only the reason of a task's failure is missing; None before."""

    def is_over(self, snapshot: Snapshot, state: ClusterState) -> bool:
        """Decide whether this snapshot ends the wait."""
        if self.seconds is not None and self._due is None and state.expected_to_report <= state.reporting:
            self._due = snapshot.at + self.seconds
        self.timed_out = self._due is not None and snapshot.at >= self._due
        if self.timed_out:
            return True
        if not self.conditions:
            return False
        self.met = next((condition for condition in self.conditions if _holds(condition, snapshot)), None)
        if self.met == "failed":
            self.failed = next(view for view in snapshot.tasks if _ended_with(view, well=False))
        self.has_ended = _has_ended(snapshot)
        return (self.met is not None or self.has_ended) and self._is_told(snapshot)

    def _is_told(self, snapshot: Snapshot) -> bool:
        """Decide whether the reason of a failure is known, or was waited for long enough."""
        self._held_since = snapshot.at if self._held_since is None else self._held_since
        return is_explained(snapshot) or snapshot.at - self._held_since >= _SETTLE


def is_explained(snapshot: Snapshot) -> bool:
    """Decide whether all tasks have ended well, if at all, or a diagnosis says why not."""
    ended = [view for view in snapshot.tasks if view.has_ended]
    has_failed = any(not has_ended_well(view) for view in ended)
    return not has_failed or any(diagnosis.kind == "crash" for diagnosis in snapshot.findings.diagnoses)


def _holds(condition: str, snapshot: Snapshot) -> bool:
    match condition:
        case "finished":
            training = _training(snapshot)
            return bool(training) and all(_ended_with(view, well=True) for view in training)
        case "failed":
            return any(_ended_with(view, well=False) for view in snapshot.tasks)
    return any(diagnosis.kind == condition and diagnosis.end is None for diagnosis in snapshot.findings.diagnoses)


def _has_ended(snapshot: Snapshot) -> bool:
    training = _training(snapshot)
    return bool(training) and all(view.is_over for view in training)


def _training(snapshot: Snapshot) -> list[TaskView]:
    return [view for view in snapshot.tasks if view.task.role in _TRAINING]


def _ended_with(view: TaskView, *, well: bool) -> bool:
    return view.is_over and has_ended_well(view) is well


def has_ended_well(view: TaskView) -> bool:
    """Decide whether a task that has ended exited 0, or was asked to end."""
    end = view.status.exit if view.status else None
    return end is not None and end.well
