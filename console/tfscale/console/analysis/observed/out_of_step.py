"""Workers that are out of step: a worker has left the training, or is in another collective than the others."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.probe_status import ActivityKind
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import listing

_DOUBT = 2.0
"""Seconds by which the end of a step may seem later than it was: frames come once a second, and the last may be
late."""
_APART = 10.0
"""Seconds within which all workers begin an evaluation that all of them do, since they wait for each other before
it. With less, late ones would count as not evaluating; with more, an evaluation of one alone is named later."""


def missing(tasks: Sequence[ObservedTask]) -> set[str]:
    """Return the tasks that have not entered the others' collective; none where unknown."""
    counts = {task.name: task.collective.entered for task in tasks if task.collective}
    if len(counts) < len(tasks) or not counts:
        return set()
    newest = max(counts.values())
    return {name for name, entered in counts.items() if entered < newest}


def parted(tasks: Sequence[ObservedTask], silent: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the tasks that did not meet the others in the all-reduce of the next step; none where unknown.

    The agents of the `silent` tasks were not heard when it happened. Where all others met, a single silent task did
    not.
    """
    heard = [task for task in tasks if task not in silent]
    behind = missing(heard)
    found = [task for task in heard if task.name in behind] or between_steps(heard)
    if not silent:
        return found
    return list(silent) if len(silent) == 1 and not found and all(task.is_inside for task in heard) else []


def between_steps(tasks: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the tasks in a collective outside of a step, such as that of an epoch's metrics; none if all are.

    A collective in a step lasts until all workers have entered it, so all have entered the same number of these.
    """
    if missing(tasks) or not all(task.is_inside for task in tasks):
        return []
    between = [task for task in tasks if task.collective and task.collective.between_steps]
    return between if len(between) < len(tasks) else []


def left_early(tasks: Sequence[ObservedTask]) -> ObservedTask | None:
    """Return the first worker that ended well by itself while another waits in a collective or has failed later."""
    meeting = [task for task in tasks if task.meets]
    left = [task for task in meeting if _has_left(task)]
    first = min(left, key=lambda task: task.ended_at, default=None)
    if first is None or not any(_goes_on(task, first) for task in meeting if task not in left):
        return None
    return first


def _has_left(task: ObservedTask) -> bool:
    end = task.status.exit if task.status else None
    return task.state is TaskState.EXITED and end is not None and end.code == 0 and not end.requested


def _goes_on(task: ObservedTask, left: ObservedTask) -> bool:
    """Decide whether a worker of the same start has entered one collective more than the worker that left."""
    if task.attempt[0] != left.attempt[0] or task.collective is None or left.collective is None:
        return False
    return task.collective.entered > max(left.collective.entered, task.collective.left)


def how_it_left(task: ObservedTask) -> str:
    """Return the words for a worker that left, and for why that stops the others."""
    step = f" after step {task.steps}" if task.steps else ""
    return (
        f"{task.name} left the training{step} (exit 0) while the others went on: it has fewer batches, or ends its "
        "loop earlier"
    )


def how_they_part(behind: Sequence[ObservedTask], tasks: Sequence[ObservedTask]) -> str:
    """Return the words for workers that entered another collective than the others' all-reduce."""
    others = listing([task.name for task in tasks if task not in behind])
    step = max(task.steps for task in tasks if task not in behind)
    after = f"after step {step}, " if step else ""
    who = listing([task.name for task in behind])
    why = (
        "it has fewer batches, ends its loop earlier, or evaluates"
        if len(behind) == 1
        else "they have fewer batches, end their loops earlier, or evaluate"
    )
    return f"{after}{who} did not meet {others} in the next all-reduce, but ran another collective: {why}"


def alone_in_evaluation(tasks: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the workers in a collective of an evaluation while others do not evaluate; none if all evaluate."""
    inside = [task for task in tasks if task.activity is ActivityKind.EVALUATION and task.is_inside]
    others = [task for task in tasks if task.activity is not ActivityKind.EVALUATION]
    if inside and others and len(inside) + len(others) == len(tasks):
        return inside
    return evaluated_alone(tasks) if all(task.is_inside for task in tasks) else []


def evaluated_alone(tasks: Sequence[ObservedTask]) -> list[ObservedTask]:
    """Return the workers that have evaluated since their last step while others made none for long; none if all have.

    Their evaluation may have ended: the others took its collective for a part of their step.
    """
    alone = [task for task in tasks if _has_just_evaluated(task)]
    begin = min((task.evaluated or 0.0 for task in alone), default=0.0)
    others = [task for task in tasks if task not in alone]
    return alone if others and all((task.evaluated or 0.0) < begin - _APART for task in others) else []


def _has_just_evaluated(task: ObservedTask) -> bool:
    return task.evaluated is not None and task.evaluated >= (task.progressed or 0.0) - _DOUBT


def how_it_evaluates(alone: Sequence[ObservedTask], tasks: Sequence[ObservedTask]) -> str:
    """Return the words for an evaluation by some workers alone."""
    others = listing([task.name for task in tasks if task not in alone])
    verb = "runs" if len(alone) == 1 else "run"
    return f"{listing([task.name for task in alone])} {verb} another collective (evaluation) than {others}"
