"""Words for the time from a start, or a restart, to the first step."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_started import is_starting, joined
from tfscale.core.cluster.task import Role
from tfscale.core.records.probe_status import ActivityKind
from tfscale.core.text import clock, elapsed, listing

_BEGUN, _IMPORTING, _PREPARING, _RESTORING, _EVALUATING, _BUILDING, _MEETING = range(7)
"""Stages of a start, the earliest first."""
_JUST = 10.0
"""Seconds from its start for which a process has just begun. Launchers and Python take some of them: with less a shell
would be said to import TensorFlow, with more the import would be told late."""
_ACTIVITIES = {
    ActivityKind.CHECKPOINT: _RESTORING,
    ActivityKind.EVALUATION: _EVALUATING,
    ActivityKind.COMPILE: _BUILDING,
}
_WORDS = {
    _BEGUN: ("has just begun", "have just begun"),
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
    sentence = f"{_since(training)}: {listing(slowest)} {_WORDS[first][len(slowest) > 1]}"
    if waiting := [name for name, stage in stages.items() if stage == _MEETING != first]:
        sentence += f"; {listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'} in the first all-reduce"
    return sentence


def _is_on_its_way(task: ObservedTask) -> bool:
    return joined(task) or is_starting(task) or (task.up and task.running and not task.meets)


def _stage(task: ObservedTask) -> int:
    if not joined(task):
        return _BEGUN if task.age < _JUST else _IMPORTING
    if task.activity in _ACTIVITIES:
        return _ACTIVITIES[task.activity]
    return _MEETING if task.is_inside else _PREPARING


def _since(training: Sequence[ObservedTask]) -> str:
    """Return since when the newest start lasts; of a restart its reason, and the checkpoint before it."""
    newest = min(training, key=lambda task: task.age)
    lasts = f"for {elapsed(newest.age)}"
    status = newest.status
    if status is None or (status.generation, status.attempt) <= (1, 1) or not status.reason:
        return f"starting {lasts}"
    saved = max((task.probe.checkpoint or 0.0 for task in training if task.probe), default=0.0)
    checkpoint = f"; the newest checkpoint is of {clock(saved)}" if saved else ""
    return f"starting again {lasts} ({status.reason}{checkpoint})"
