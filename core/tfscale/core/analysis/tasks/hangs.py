"""No step for far longer than is normal, though the tasks run. No numpy: this rule must work in the smallest place."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.observed_task import TaskView
from tfscale.core.analysis.words import clock, duration, listing, plural
from tfscale.core.records import ActivityKind, Diagnosis
from tfscale.core.task import CLUSTER

SHORTEST = 60.0
"""Seconds without a step below which nothing is called a hang."""
BUSY = 600.0
"""The same while somebody compiles, saves or evaluates."""
GAPS = 5.0
"""... and it takes this many times the longest normal gap."""


def limit(views: Sequence[TaskView]) -> float:
    """Seconds without a step from which on it is a hang."""
    # Idle is what a stuck process is, too: it earns nobody more time.
    is_busy = any(view.activity not in (None, ActivityKind.IDLE) for view in views)
    shortest = BUSY if is_busy else SHORTEST
    return max(shortest, GAPS * max((view.longest_gap for view in views), default=0.0))


def hangs(tasks: Sequence[TaskView]) -> list[Diagnosis]:
    """One diagnosis for each task that keeps the others waiting, or one of the cluster.

    Judged only while every task that takes part in the collectives runs, is in contact and has made a step.
    """
    views = [view for view in tasks if view.meets]
    still = [stillness(view) for view in views]
    if not views or any(each is None for each in still):
        return []
    quiet = min(each for each in still if each is not None)
    if quiet <= limit(views):
        return []
    begin = max(view.active or 0.0 for view in views)
    culprits = [view for view in views if view.name in missing(views)]
    if not culprits:
        return [_of_cluster(views, begin, quiet)]
    waiting = [view.name for view in views if view not in culprits]
    return [_of_task(view, waiting, begin, quiet) for view in culprits]


def stillness(view: TaskView) -> float | None:
    """Seconds since the task's last step, or what it did after it, on its own host's clock; None where that cannot be
    said."""
    if not (view.up and view.running) or view.active is None or view.at is None:
        return None
    return view.at - view.active


def missing(views: Sequence[TaskView]) -> set[str]:
    """Those that have not entered the collective in which the others wait; nobody where that is unknown."""
    counts = {view.name: view.collective.entered for view in views if view.collective}
    if len(counts) < len(views):
        return set()
    newest = max(counts.values())
    return {name for name, entered in counts.items() if entered < newest}


def _of_task(view: TaskView, waiting: list[str], begin: float, quiet: float) -> Diagnosis:
    sentence = (
        f"{view.name} is stuck since {clock(begin)} ({duration(quiet)}): it has not entered the all-reduce in which "
        f"{listing(waiting)} {'waits' if len(waiting) == 1 else 'wait'}; see its log and its stack"
    )
    return Diagnosis("hang", view.name, begin, None, "critical", sentence, {"quiet": quiet})


def _of_cluster(views: Sequence[TaskView], begin: float, quiet: float) -> Diagnosis:
    inside = [view.name for view in views if view.collective and view.collective.entered > view.collective.left]
    if any(view.collective is None for view in views):
        where = "who waits for whom is not known"
    elif len(inside) == len(views):
        where = f"all {plural(len(views), 'task')} are inside the all-reduce: look at the network between them"
    else:
        where = "nobody is inside the all-reduce: look at what they share (storage, input, the chief's services)"
    sentence = f"no step since {clock(begin)} ({duration(quiet)}); {where}"
    return Diagnosis("hang", CLUSTER, begin, None, "critical", sentence, {"quiet": quiet})
