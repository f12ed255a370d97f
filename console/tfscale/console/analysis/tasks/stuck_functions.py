"""Unanswered functions: the hang of asynchronous training, seen from the chief.

TensorFlow notices a worker or a parameter server that died, but never a stopped or stuck one, whose functions grow old.
The chief's probe reports their age from another thread than the waiting one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.condition import process_doing
from tfscale.console.analysis.condition.process_doing import UNKNOWN
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import CLUSTER, Role
from tfscale.core.failure.hang_limits import BUSY, SHORTEST
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.step_batch import Coordinator, WorkerFunctions
from tfscale.core.text import clock, duration, listing, plural

USUAL = 20.0
"""Multiple of the worker's mean duration after which a function counts as stuck: a function that reads the next file
or is traced anew takes a few times as long as others, a stuck one reaches any multiple."""
STOPPED = 10.0
"""Seconds after which a function counts as stuck if a signal has stopped its worker or a server: the reason is
plain, and only a debugger's short pause must not be told."""
SILENT = 5.0
"""Seconds after which the chief's last report is old: it reports each second. With less a late report would end a
finding, with more the ages of a silent chief would seem to be present."""


def stuck_functions(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each worker that keeps a function for far too long.

    Where all workers do: one for each stopped server, else one for the cluster.
    """
    coordinator = next((task.coordinator for task in tasks if _is_reported(task)), None)
    if coordinator is None:
        return []
    running = {task.name: task for task in tasks if task.running}
    servers = [task for task in tasks if task.task.role is Role.PS]
    asked = [pending for pending in coordinator.workers if pending.since is not None and pending.worker in running]
    suspects = [task.name for task in servers if task.running and task.stopped]
    if suspects and asked and all(_age(pending, coordinator) > STOPPED for pending in asked):
        return [_of_server(name, asked, coordinator) for name in suspects]
    old = [pending for pending in asked if _age(pending, coordinator) > limit(pending, running[pending.worker].stopped)]
    # A stopped worker may hold up the others, too.
    if halted := [pending for pending in old if running[pending.worker].stopped]:
        return [_of_worker(pending, coordinator, stopped=True) for pending in halted]
    if len(old) == len(asked) > 1:
        return [_of_cluster(old, coordinator, [task.name for task in servers])]
    return [_of_worker(pending, coordinator, stopped=False) for pending in old]


def limit(functions: WorkerFunctions, stopped: bool) -> float:
    """Return the age at which a function of this worker is stuck, seconds; its first is traced and may take longer."""
    if stopped:
        return STOPPED
    if not functions.finished:
        return BUSY
    return max(SHORTEST, USUAL * functions.busy / functions.finished)


def _is_reported(task: ObservedTask) -> bool:
    if not (task.up and task.running) or task.coordinator is None or task.at is None:
        return False
    return task.at - task.coordinator.at < SILENT


def _age(functions: WorkerFunctions, coordinator: Coordinator) -> float:
    return 0.0 if functions.since is None else coordinator.at - functions.since


def _of_worker(functions: WorkerFunctions, coordinator: Coordinator, stopped: bool) -> Diagnosis:
    begin = functions.since or 0.0
    age = _age(functions, coordinator)
    silent = "it does not answer the chief, and TensorFlow waits for ever"
    why = f"a signal has stopped its process; {silent}" if stopped else f"{silent}; see its log and its stack"
    sentence = f"{_stuck(functions.worker, begin, age)}: {why}"
    return _diagnosis(functions.worker, begin, sentence, age, process_doing.STOPPED if stopped else UNKNOWN)


def _of_server(name: str, old: Sequence[WorkerFunctions], coordinator: Coordinator) -> Diagnosis:
    begin = min(pending.since or 0.0 for pending in old)
    age = coordinator.at - begin
    wait = f"{listing([pending.worker for pending in old])} {'waits' if len(old) == 1 else 'wait'}"
    sentence = f"{_stuck(name, begin, age)}: a signal has stopped its process, and {wait} for its variables"
    return _diagnosis(name, begin, sentence, age, process_doing.STOPPED)


def _stuck(name: str, begin: float, age: float) -> str:
    return f"{name} has been stuck for {duration(age)} (since {clock(begin)})"


def _diagnosis(subject: str, begin: float, sentence: str, age: float, does: str) -> Diagnosis:
    return Diagnosis("hang", subject, begin, None, "critical", sentence, evidence={"quiet": age, "doing": does})


def _of_cluster(old: Sequence[WorkerFunctions], coordinator: Coordinator, servers: Sequence[str]) -> Diagnosis:
    begin = max(pending.since or 0.0 for pending in old)
    age = coordinator.at - begin
    sentence = (
        f"none of {plural(len(old), 'worker')} has answered the chief for {duration(age)} (since {clock(begin)}): look "
        f"at {listing(list(servers))}, and at the network"
    )
    return _diagnosis(CLUSTER, begin, sentence, age, UNKNOWN)
