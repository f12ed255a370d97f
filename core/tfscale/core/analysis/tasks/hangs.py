"""Hangs: no step for far longer than is normal, though the tasks run."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.observed_task import ObservedTask
from tfscale.core.analysis.tasks.out_of_step import alone_in_evaluation, how_it_evaluates
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records import ActivityKind, Diagnosis
from tfscale.core.text import clock, duration, listing, plural

SHORTEST = 60.0
"""Seconds without a step up to which nothing is a hang (chosen)."""
BUSY = 600.0
"""Seconds without a step up to which nothing is a hang while some task compiles, saves or evaluates (chosen)."""
GAPS = 5.0
"""Multiple of the longest normal gap between two steps after which it is a hang (chosen)."""


def limit(tasks: Sequence[ObservedTask]) -> float:
    """Return the seconds without a step after which it is a hang."""
    # A stuck process is idle, too: being idle is no reason to wait longer.
    is_busy = any(task.activity not in (None, ActivityKind.IDLE) for task in tasks) and not alone_in_evaluation(tasks)
    shortest = BUSY if is_busy else SHORTEST
    return max(shortest, GAPS * max((task.longest_gap for task in tasks), default=0.0))


def hangs(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return one diagnosis for each task that keeps the others waiting, or one of the cluster.

    Hangs are judged only while every task that takes part in the collectives runs, is in contact and has made a step.
    """
    tasks = [task for task in tasks if task.meets]
    still = [stillness(task) for task in tasks]
    if not tasks or any(seconds is None for seconds in still):
        return []
    quiet = min(seconds for seconds in still if seconds is not None)
    if quiet <= limit(tasks):
        return []
    begin = max(task.active or 0.0 for task in tasks)
    if alone := alone_in_evaluation(tasks):
        return [_of_evaluation(task, alone, tasks, begin, quiet) for task in alone]
    culprits = [task for task in tasks if task.name in missing(tasks)]
    if not culprits:
        return [_of_cluster(tasks, begin, quiet)]
    waiting = [task.name for task in tasks if task not in culprits]
    return [_of_task(task, waiting, begin, quiet) for task in culprits]


def stillness(task: ObservedTask) -> float | None:
    """Return the seconds since the task's last step or activity, on its own host's clock; None unknown."""
    if not (task.up and task.running) or task.active is None or task.at is None:
        return None
    return task.at - task.active


def missing(tasks: Sequence[ObservedTask]) -> set[str]:
    """Return the tasks that have not entered the collective in which the others wait; none where that is unknown."""
    counts = {task.name: task.collective.entered for task in tasks if task.collective}
    if len(counts) < len(tasks):
        return set()
    newest = max(counts.values())
    return {name for name, entered in counts.items() if entered < newest}


def _of_task(task: ObservedTask, waiting: list[str], begin: float, quiet: float) -> Diagnosis:
    sentence = (
        f"{task.name} is stuck since {clock(begin)} ({duration(quiet)}): it has not entered the all-reduce in which "
        f"{listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'}; see its log and its stack"
    )
    return Diagnosis("hang", task.name, begin, None, "critical", sentence, {"quiet": quiet})


def _of_evaluation(
    task: ObservedTask, alone: Sequence[ObservedTask], tasks: Sequence[ObservedTask], begin: float, quiet: float
) -> Diagnosis:
    sentence = (
        f"{how_it_evaluates(alone, tasks)}: no step since {clock(begin)} ({duration(quiet)}); all workers evaluate, or "
        "none of them under the strategy"
    )
    return Diagnosis("hang", task.name, begin, None, "critical", sentence, {"quiet": quiet})


def _of_cluster(tasks: Sequence[ObservedTask], begin: float, quiet: float) -> Diagnosis:
    inside = [task.name for task in tasks if task.collective and task.collective.entered > task.collective.left]
    if any(task.collective is None for task in tasks):
        where = "who waits for whom is not known"
    elif len(inside) == len(tasks):
        where = f"all {plural(len(tasks), 'task')} are inside the all-reduce: look at the network between them"
    else:
        where = "nobody is inside the all-reduce: look at what they share (storage, input, the chief's services)"
    sentence = f"no step since {clock(begin)} ({duration(quiet)}); {where}"
    return Diagnosis("hang", CLUSTER, begin, None, "critical", sentence, {"quiet": quiet})
