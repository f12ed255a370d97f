"""Words for the time from a start, or a restart, to the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfscale.console.analysis.condition.start_stages import Stage, Start, stage_of
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_started import is_starting, joined
from tfscale.core.cluster.task import Role
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import clock, elapsed, listing

_WORDS = {
    Stage.ORDERED: ("is being started", "are being started"),
    Stage.BEGUN: ("has just begun", "have just begun"),
    Stage.UNHEARD: ("runs, and has not reported so far", "run, and have not reported so far"),
    Stage.BEFORE: ("runs, and has not imported TensorFlow so far", "run, and have not imported TensorFlow so far"),
    Stage.IMPORTING: ("imports TensorFlow", "import TensorFlow"),
    Stage.PREPARING: ("prepares its training", "prepare their training"),
    Stage.RESTORING: ("reads or writes a checkpoint", "read or write checkpoints"),
    Stage.EVALUATING: ("evaluates", "evaluate"),
    Stage.BUILDING: ("builds its graph, tracing a function", "build their graphs, tracing functions"),
    Stage.MEETING: ("is in the first all-reduce", "are in the first all-reduce"),
}
_TOLD = 2.0
"""Seconds in a stage from which on they are told: a frame comes each second, and stages of a second would flicker."""
_UNTIMED = (Stage.ORDERED, Stage.BEGUN, Stage.UNHEARD, Stage.BEFORE)
"""Stages that have lasted for as long as the start itself."""


def starting(tasks: Sequence[ObservedTask], starts: Mapping[str, Start]) -> str | None:
    """Return what a cluster without a step does: its slowest tasks, for how long, and why it was restarted.

    None where a task that trains is missing, and is not about to come. `starts` has their stages so far, by name.
    """
    needed = [task for task in tasks if task.task.role is not Role.EVALUATOR]
    training = [task for task in needed if task.meets]
    if not training or not all(_is_on_its_way(task) for task in needed):
        return None
    stages = {task.name: stage_of(task) for task in training}
    first = min(stages.values())
    slowest = [name for name, stage in stages.items() if stage == first]
    sentence = f"{_since(needed)}: {_at_stage(slowest, first)}{_lasting([starts.get(name) for name in slowest], first)}"
    if waiting := [name for name, stage in stages.items() if stage is Stage.MEETING is not first]:
        sentence += f"; {listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'} in the first all-reduce"
    return sentence


def coming_up(tasks: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the tasks that start while others may train, as workers of parameter servers do."""
    return [task for task in tasks if task.meets and not joined(task) and _is_on_its_way(task)]


def how_they_come_up(coming: Sequence[ObservedTask]) -> str:
    """Return how far these tasks are, and why they were started again."""
    first = min(map(stage_of, coming))
    slowest = [task for task in coming if stage_of(task) is first]
    status = slowest[0].status
    why = f" ({status.reason})" if status is not None and _is_again(status) else ""
    return _at_stage([task.name for task in slowest], first) + why


def _at_stage(names: Sequence[str], stage: Stage) -> str:
    return f"{listing(names)} {_WORDS[stage][len(names) > 1]}"


def _lasting(starts: Sequence[Start | None], stage: Stage) -> str:
    """Return the seconds of the slowest tasks' stage; empty where unknown, few, or those of the whole start."""
    seconds = max((start.lasting for start in starts if start is not None and start.stage is stage), default=0.0)
    return f" ({elapsed(seconds)})" if seconds >= _TOLD and stage not in _UNTIMED else ""


def _is_again(status: TaskStatus) -> bool:
    """Decide whether this is a restart whose reason is known."""
    return (status.generation, status.attempt) > (1, 1) and bool(status.reason)


def _is_on_its_way(task: ObservedTask) -> bool:
    is_ordered = task.up and task.state is TaskState.STARTING
    return is_ordered or joined(task) or is_starting(task) or (task.up and task.running and not task.meets)


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
