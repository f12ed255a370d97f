"""Functions of ParameterServerStrategy's coordinator, from one task's view."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.task import Role
from tfscale.core.records.step_batch import Coordinator, WorkerFunctions
from tfscale.core.text import count, data_size, elapsed, percent, step_time

_LONG = 1.0
"""Seconds from which on the time of an unanswered function is shown."""


def facts(view: TaskView, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Return names and texts of the lines; none without a coordinator."""
    coordinators = (view.frame.coordinator for view in snapshot.tasks if view.frame)
    coordinator = next((coordinator for coordinator in coordinators if coordinator is not None), None)
    if coordinator is None:
        return
    name = str(view.task)
    if view.task.role is Role.PS:
        yield from _served(name, coordinator)
    elif view.frame is not None and view.frame.coordinator is not None:
        yield "functions", _handed_out(coordinator)
    for functions in coordinator.workers:
        if functions.worker == name:
            yield "functions", _executed(functions, coordinator.at)
            yield from _exchanged(functions)


def _handed_out(coordinator: Coordinator) -> str:
    parts = [f"{count(sum(functions.finished for functions in coordinator.workers))} executed"]
    parts += [] if coordinator.queued is None else [f"{count(coordinator.queued)} waiting for a worker"]
    since = coordinator.waiting_since
    if since is not None:
        parts.append(f"the program waits for them since {elapsed(coordinator.at - since)}")
    return "   ".join(parts)


def _executed(functions: WorkerFunctions, now: float) -> str:
    parts = [f"{count(functions.finished)} executed"]
    if functions.finished:
        parts.append(f"{step_time(functions.busy / functions.finished)} each")
    if functions.busy + functions.idle:
        parts.append(f"{percent(functions.idle / (functions.busy + functions.idle))} of the time without one")
    parts += [f"{count(functions.failed)} failed"] if functions.failed else []
    if functions.since is not None and now - functions.since >= _LONG:
        parts.append(f"no answer for {elapsed(now - functions.since)}")
    return "   ".join(parts)


def _exchanged(functions: WorkerFunctions) -> Iterator[tuple[str, str]]:
    for traffic in functions.traffic:
        yield traffic.server, f"{data_size(traffic.pulled)} pulled   {data_size(traffic.pushed)} pushed"


def _served(server: str, coordinator: Coordinator) -> Iterator[tuple[str, str]]:
    for functions in coordinator.workers:
        for traffic in functions.traffic:
            if traffic.server == server:
                yield functions.worker, f"{data_size(traffic.pulled)} pulled   {data_size(traffic.pushed)} pushed"
