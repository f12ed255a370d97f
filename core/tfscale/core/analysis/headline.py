"""The one sentence for the top line."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.hangs import missing, stillness
from tfscale.core.analysis.tasks.not_started import joined, why_missing
from tfscale.core.analysis.tasks.observed_task import TaskView
from tfscale.core.analysis.words import duration, listing, plural, rate
from tfscale.core.records import Diagnosis, TaskState
from tfscale.core.task import Role


def headline(diagnoses: Sequence[Diagnosis], tasks: Sequence[TaskView], steps_per_second: float | None) -> str:
    """The most severe open diagnosis, else how it goes, else what training waits for.

    A cluster that is merely used well, up to some limit, is healthy.
    """
    for diagnosis in diagnoses:
        if diagnosis.end is None and (diagnosis.kind, diagnosis.severity) != ("saturation", "info"):
            return diagnosis.sentence
    if trouble := _trouble(tasks):
        return trouble
    if steps_per_second is not None:
        return _healthy(tasks, steps_per_second)
    return _waiting(tasks)


def _trouble(tasks: Sequence[TaskView]) -> str | None:
    """What is no diagnosis, but keeps the cluster from being called healthy."""
    unreachable = [view.name for view in tasks if not view.up]
    if unreachable:
        return f"no contact with the agent of {listing(unreachable)}"
    ended = [view for view in tasks if view.state in (TaskState.EXITED, TaskState.LOST)]
    if ended and len(ended) == len(tasks):
        return "all tasks have ended" if any(_failed(view) for view in ended) else "all tasks have ended well"
    if ended:
        return f"{listing([view.name for view in ended])} {'has' if len(ended) == 1 else 'have'} ended"
    return None


def _failed(view: TaskView) -> bool:
    end = view.status.exit if view.status else None
    return end is None or not end.well


def _healthy(tasks: Sequence[TaskView], steps_per_second: float) -> str:
    coordinator = next((view.coordinator for view in tasks if view.coordinator), None)
    if coordinator is not None:
        working = sum(each.finished > 0 for each in coordinator.workers)
        return f"healthy: {plural(working, 'worker')} at work, {rate(steps_per_second)} together"
    training = [view for view in tasks if view.meets and view.progressed is not None]
    if len(training) <= 1:
        return f"healthy: {listing([view.name for view in training])} trains, {rate(steps_per_second)}"
    roles = {view.task.role for view in training}
    noun = "worker" if roles <= {Role.WORKER, Role.CHIEF} else "task"
    return f"healthy: {plural(len(training), noun)} in step, {rate(steps_per_second)}, no straggler"


def _waiting(tasks: Sequence[TaskView]) -> str:
    needed = [view for view in tasks if view.task.role is not Role.EVALUATOR]
    absent = [(view.name, why) for view in needed if (why := why_missing(view)) is not None]
    if absent:
        name, why = absent[0]
        others = f"; {len(absent) - 1} more are missing" if len(absent) > 1 else ""
        return f"waiting for {name}: {why}{others}"
    stopped = [view for view in needed if view.progressed is not None and joined(view)]
    if stopped:
        return _stopped(stopped)
    return f"{plural(len(needed), 'task')} running, waiting for the first step"


def _stopped(tasks: Sequence[TaskView]) -> str:
    """Nobody makes steps, for less long than is called a hang: who keeps whom waiting is known all the same."""
    still = [each for view in tasks if (each := stillness(view)) is not None]
    since = f"for {duration(min(still))}" if still else "in the last seconds"
    late = missing(meeting) if (meeting := [view for view in tasks if view.meets]) else set()
    if late:
        names = listing([view.name for view in meeting if view.name in late])
        has = "has" if len(late) == 1 else "have"
        return f"no step {since}: {names} {has} not entered the all-reduce in which the others wait"
    return f"no step {since}: {listing([view.name for view in tasks])} {'runs' if len(tasks) == 1 else 'run'}"
