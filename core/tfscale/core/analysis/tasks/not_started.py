"""Training waits in its first collective until the last task has joined: who has not?"""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.observed_task import TaskView
from tfscale.core.analysis.words import clock, duration, listing
from tfscale.core.records import Diagnosis, TaskState
from tfscale.core.task import Role

PATIENCE = 30.0
"""Seconds that the first to join waits before the others are named."""

_WHY = {
    TaskState.PENDING: "its task was not started",
    TaskState.STARTING: "its task is only starting",
    TaskState.RUNNING: "its process runs, but does not report",
    TaskState.STOPPING: "its task is being stopped",
    TaskState.EXITED: "its task has ended",
    TaskState.LOST: "its task was lost",
}


def joined(view: TaskView) -> bool:
    """Whether the training process runs and reports."""
    return view.up and view.running and view.probe is not None


def why_missing(view: TaskView) -> str | None:
    """Why a task has not joined, None when it has. Roles that report no steps join by running."""
    if joined(view) or (view.up and view.running and not view.meets):
        return None
    if not view.up:
        return "its agent cannot be reached"
    return _WHY[view.state] if view.state else "its agent has not said anything"


def not_started(tasks: Sequence[TaskView], now: float) -> list[Diagnosis]:
    """One diagnosis for each task that the others wait for, after 30 s, while there is no step anywhere."""
    needed = [view for view in tasks if view.task.role is not Role.EVALUATOR]
    waiting = [view for view in needed if joined(view)]
    if not waiting or any(view.progressed is not None for view in needed):
        return []
    begin = min(
        (view.status.started for view in waiting if view.status and view.status.started is not None), default=now
    )
    if now - begin < PATIENCE:
        return []
    names = [view.name for view in waiting]
    absent = [(view, why) for view in needed if (why := why_missing(view)) is not None]
    return [_describe(view, why, names, begin, now) for view, why in absent]


def _describe(view: TaskView, why: str, waiting: list[str], begin: float, now: float) -> Diagnosis:
    since = f" since {clock(view.since)}" if not view.up and view.since is not None else ""
    sentence = (
        f"{view.name} has not joined: {why}{since}; "
        f"{listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for it, {duration(now - begin)} now"
    )
    return Diagnosis("not_started", view.name, begin, None, "serious", sentence, {"why": why})
