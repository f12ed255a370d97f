"""Functions of ParameterServerStrategy's coordinator, from one task's view."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.task import Role
from tfscale.core.records import Coordinator, WorkerFunctions
from tfscale.core.text import count, data_size, elapsed, percent, step_time

_LONG = 1.0
"""Seconds from which on the time of an unanswered function is shown."""


def facts(view: TaskView, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Return names and texts of the lines; none without a coordinator."""
    coordinators = (each.frame.coordinator for each in snapshot.tasks if each.frame)
    coordinator = next((each for each in coordinators if each is not None), None)
    if coordinator is None:
        return
    name = str(view.task)
    if view.task.role is Role.PS:
        yield from _served(name, coordinator)
    elif view.frame is not None and view.frame.coordinator is not None:
        yield "functions", _handed_out(coordinator)
    for each in coordinator.workers:
        if each.worker == name:
            yield "functions", _executed(each, coordinator.at)
            yield from _exchanged(each)


def _handed_out(coordinator: Coordinator) -> str:
    said = [f"{count(sum(each.finished for each in coordinator.workers))} executed"]
    said += [] if coordinator.queued is None else [f"{count(coordinator.queued)} waiting for a worker"]
    since = coordinator.waiting_since
    if since is not None:
        said.append(f"the program waits for them since {elapsed(coordinator.at - since)}")
    return "   ".join(said)


def _executed(functions: WorkerFunctions, now: float) -> str:
    said = [f"{count(functions.finished)} executed"]
    if functions.finished:
        said.append(f"{step_time(functions.busy / functions.finished)} each")
    if functions.busy + functions.idle:
        said.append(f"{percent(functions.idle / (functions.busy + functions.idle))} without any")
    said += [f"{count(functions.failed)} failed"] if functions.failed else []
    if functions.since is not None and now - functions.since >= _LONG:
        said.append(f"no answer for {elapsed(now - functions.since)}")
    return "   ".join(said)


def _exchanged(functions: WorkerFunctions) -> Iterator[tuple[str, str]]:
    for each in functions.traffic:
        yield each.server, f"{data_size(each.pulled)} pulled   {data_size(each.pushed)} pushed"


def _served(server: str, coordinator: Coordinator) -> Iterator[tuple[str, str]]:
    for functions in coordinator.workers:
        for each in functions.traffic:
            if each.server == server:
                yield functions.worker, f"{data_size(each.pulled)} pulled   {data_size(each.pushed)} pushed"
