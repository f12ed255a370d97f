"""Functions that no worker answers: the hang of asynchronous training, seen from the chief. No numpy.

TensorFlow notices a worker or a parameter server that died, but never one that is only stopped or stuck. Its functions
grow old, which the chief says from another thread than the one that waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.hangs import BUSY, SHORTEST
from tfscale.core.analysis.tasks import TaskView
from tfscale.core.analysis.words import clock, duration, listing, plural
from tfscale.core.records import Coordinator, Diagnosis, WorkerFunctions
from tfscale.core.task import CLUSTER, Role

USUAL = 20.0
"""A function is old only when it takes this many times the worker's mean."""
SILENT = 5.0
"""Seconds after which what the chief said last is no longer the present."""


def unanswered(tasks: Sequence[TaskView]) -> list[Diagnosis]:
    """One diagnosis for each worker that keeps a function for far too long, or one of the cluster where all do."""
    coordinator = next((view.coordinator for view in tasks if _speaks(view)), None)
    if coordinator is None:
        return []
    running = {view.name for view in tasks if view.running}
    asked = [each for each in coordinator.workers if each.since is not None and each.worker in running]
    old = [each for each in asked if _age(each, coordinator) > limit(each)]
    if not old:
        return []
    if len(old) == len(asked) > 1:
        return [_of_cluster(old, coordinator, [view.name for view in tasks if view.task.role is Role.PS])]
    return [_of_worker(each, coordinator) for each in old]


def limit(functions: WorkerFunctions) -> float:
    """Seconds after which a function of this worker is no longer normal; the first one is traced and takes longer."""
    if not functions.finished:
        return BUSY
    return max(SHORTEST, USUAL * functions.busy / functions.finished)


def _speaks(view: TaskView) -> bool:
    if not (view.up and view.running) or view.coordinator is None or view.at is None:
        return False
    return view.at - view.coordinator.at < SILENT


def _age(functions: WorkerFunctions, coordinator: Coordinator) -> float:
    return 0.0 if functions.since is None else coordinator.at - functions.since


def _of_worker(functions: WorkerFunctions, coordinator: Coordinator) -> Diagnosis:
    begin = functions.since or 0.0
    age = _age(functions, coordinator)
    sentence = (
        f"{functions.worker} is stuck since {clock(begin)} ({duration(age)}): it does not answer the chief, and "
        "TensorFlow waits for ever; see its log and its stack, or restart it"
    )
    return Diagnosis("hang", functions.worker, begin, None, "critical", sentence, {"quiet": age})


def _of_cluster(old: Sequence[WorkerFunctions], coordinator: Coordinator, servers: Sequence[str]) -> Diagnosis:
    begin = max(each.since or 0.0 for each in old)
    age = coordinator.at - begin
    sentence = (
        f"none of {plural(len(old), 'worker')} answers the chief since {clock(begin)} ({duration(age)}): look at "
        f"{listing(list(servers))}, and at the network"
    )
    return Diagnosis("hang", CLUSTER, begin, None, "critical", sentence, {"quiet": age})
