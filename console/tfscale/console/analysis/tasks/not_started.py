"""Tasks that were not started: training waits in its first collective until the last task has joined."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import Role
from tfscale.core.failure.hang_limits import BUSY
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ProbeState
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import clock, duration, listing

PATIENCE = 30.0
"""Seconds that the first task to join waits before the missing tasks are named. Importing TensorFlow takes many
seconds on a busy host: with less every start would name slower tasks, with more a task that nobody started is named
later."""

_UNHEARD = (ProbeState.ABSENT, ProbeState.EXPECTED, ProbeState.LOADED)
_WHY = {
    TaskState.PENDING: "its task was not started",
    TaskState.STARTING: "its task is only starting",
    TaskState.RUNNING: "its process runs, but does not report",
    TaskState.STOPPING: "its task is being stopped",
    TaskState.EXITED: "its task has ended",
    TaskState.LOST: "its task was lost",
}


def joined(task: ObservedTask) -> bool:
    """Decide whether the training process runs and reports."""
    return task.up and task.running and task.probe is not None and task.probe.state not in _UNHEARD


def why_missing(task: ObservedTask) -> str | None:
    """Return why a task has not joined, None when it has. Roles that report no steps join by running."""
    if joined(task) or (task.up and task.running and not task.meets):
        return None
    if not task.up:
        return "its agent cannot be reached"
    if task.running and task.stopped:
        return "a signal has stopped its process"
    if task.running and task.probe is not None:
        return task.probe.message
    if task.state is TaskState.PENDING and task.status is not None and task.status.reason:
        return f"{_WHY[TaskState.PENDING]}: {task.status.reason}"
    return _WHY[task.state] if task.state else "its agent has not said anything"


def is_starting(task: ObservedTask) -> bool:
    """Decide whether a process that does not report so far has just begun, or is at work, as by an import."""
    if joined(task) or not (task.up and task.running) or task.stopped:
        return False
    return task.age < PATIENCE or (task.is_at_work and task.age < BUSY)


def not_started(tasks: Sequence[ObservedTask], now: float) -> list[Diagnosis]:
    """Return a diagnosis for each missing task, while no task has made a step; a process at work is not missing."""
    needed = [task for task in tasks if task.task.role is not Role.EVALUATOR]
    waiting = [task for task in needed if why_missing(task) is None]
    if not waiting or any(task.progressed is not None for task in needed):
        return []
    begin = min(
        (task.status.started for task in waiting if task.status and task.status.started is not None), default=now
    )
    if now - begin < PATIENCE:
        return []
    names = [task.name for task in waiting]
    absent = [(task, why) for task in needed if (why := why_missing(task)) is not None and not is_starting(task)]
    return [_describe(task, why, names, begin, now) for task, why in absent]


def _describe(task: ObservedTask, why: str, waiting: list[str], begin: float, now: float) -> Diagnosis:
    since = f" since {clock(task.since)}" if not task.up and task.since is not None else ""
    sentence = (
        f"{task.name} has not joined: {why}{since}; "
        f"{listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for it, {duration(now - begin)} now"
    )
    return Diagnosis("not_started", task.name, begin, None, "serious", sentence, evidence={"why": why})
