"""Words for the time from a start, or a restart, to the first step."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_started import is_starting, joined
from tfscale.core.cluster.task import Role
from tfscale.core.records.probe_status import ActivityKind, ProbeState
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import clock, elapsed, listing

_ORDERED, _BEGUN, _UNHEARD, _BEFORE, _IMPORTING, _PREPARING, _RESTORING, _EVALUATING, _BUILDING, _MEETING = range(10)
"""Stages of a start, the earliest first."""
_JUST = 10.0
"""Seconds from its start for which a process has just begun, as long as its agent has found no more: with less a start
would be said not to report, with more one that does not would be told late."""
_FOUND = {ProbeState.EXPECTED: _BEFORE, ProbeState.LOADED: _IMPORTING}
_ACTIVITIES = {
    ActivityKind.CHECKPOINT: _RESTORING,
    ActivityKind.EVALUATION: _EVALUATING,
    ActivityKind.COMPILE: _BUILDING,
}
_WORDS = {
    _ORDERED: ("is being started", "are being started"),
    _BEGUN: ("has just begun", "have just begun"),
    _UNHEARD: ("runs, and has not reported so far", "run, and have not reported so far"),
    _BEFORE: ("runs, and has not imported TensorFlow so far", "run, and have not imported TensorFlow so far"),
    _IMPORTING: ("imports TensorFlow, or prepares its training", "import TensorFlow, or prepare their training"),
    _PREPARING: ("prepares its training", "prepare their training"),
    _RESTORING: ("reads or writes a checkpoint", "read or write checkpoints"),
    _EVALUATING: ("evaluates", "evaluate"),
    _BUILDING: ("builds its graph (a function is traced)", "build their graphs (a function is traced)"),
    _MEETING: ("is in the first all-reduce", "are in the first all-reduce"),
}


def starting(tasks: Sequence[ObservedTask]) -> str | None:
    """Return what a cluster without a step does: its slowest tasks, and why it was restarted.

    None where a task that trains is missing, and is not about to come.
    """
    needed = [task for task in tasks if task.task.role is not Role.EVALUATOR]
    training = [task for task in needed if task.meets]
    if not training or not all(_is_on_its_way(task) for task in needed):
        return None
    stages = {task.name: _stage(task) for task in training}
    first = min(stages.values())
    slowest = [name for name, stage in stages.items() if stage == first]
    sentence = f"{_since(needed)}: {_at_stage(slowest, first)}"
    if waiting := [name for name, stage in stages.items() if stage == _MEETING != first]:
        sentence += f"; {listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'} in the first all-reduce"
    return sentence


def coming_up(tasks: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the tasks that start while others may train, as workers of parameter servers do."""
    return [task for task in tasks if task.meets and not joined(task) and _is_on_its_way(task)]


def how_they_come_up(coming: Sequence[ObservedTask]) -> str:
    """Return how far these tasks are, and why they were started again."""
    first = min(map(_stage, coming))
    slowest = [task for task in coming if _stage(task) == first]
    status = slowest[0].status
    why = f" ({status.reason})" if status is not None and _is_again(status) else ""
    return _at_stage([task.name for task in slowest], first) + why


def _at_stage(names: Sequence[str], stage: int) -> str:
    return f"{listing(names)} {_WORDS[stage][len(names) > 1]}"


def _is_again(status: TaskStatus) -> bool:
    """Decide whether this is a restart whose reason is known."""
    return (status.generation, status.attempt) > (1, 1) and bool(status.reason)


def _is_on_its_way(task: ObservedTask) -> bool:
    is_ordered = task.up and task.state is TaskState.STARTING
    return is_ordered or joined(task) or is_starting(task) or (task.up and task.running and not task.meets)


def _stage(task: ObservedTask) -> int:
    if not task.running:
        return _ORDERED
    if not joined(task):
        found = _FOUND.get(task.probe.state) if task.probe else None
        return found or (_BEGUN if task.age < _JUST else _UNHEARD)
    if task.activity in _ACTIVITIES:
        return _ACTIVITIES[task.activity]
    return _MEETING if task.is_inside else _PREPARING


def _since(needed: Sequence[ObservedTask]) -> str:
    """Return since when the newest start lasts; of a restart its reason, and the checkpoint before it.

    A restart after a failure is a recovery, which lasts since then.
    """
    newest = min((task for task in needed if task.running), key=lambda task: task.age, default=needed[0])
    lasts = f" for {elapsed(newest.age)}" if newest.running else ""
    status = newest.status
    if status is None or not _is_again(status):
        return f"starting{lasts}"
    saved = max((task.saved for task in needed if task.saved is not None), default=None)
    checkpoint = "" if saved is None else f"; the newest checkpoint is of {clock(saved)}"
    together = [task for task in needed if task.status and task.status.generation == status.generation]
    failed = [task.at - task.last_end.at for task in together if task.at and task.last_end and not task.last_end.well]
    begin = f"recovering, {elapsed(max(failed))} after the failure" if failed else f"starting again{lasts}"
    return f"{begin} ({status.reason}{checkpoint})"
