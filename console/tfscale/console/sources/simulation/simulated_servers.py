"""Chief of simulated parameter servers: the functions that it hands out, and the workers' steps that it measures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from tfscale.console.sources.simulation.simulated_course import Course
from tfscale.console.sources.simulation.simulated_host import BYTES, server_share
from tfscale.console.sources.simulation.simulated_steps import SimulatedSteps
from tfscale.core.cluster.task import Task
from tfscale.core.records.step_batch import Coordinator, ServerTraffic, WorkerFunctions

_QUEUED = 24
"""Functions that wait for a worker: the chief is ahead of them."""


@dataclass(slots=True)
class _Work:
    """Account of one worker since the start of the chief's attempt."""

    finished: int = 0
    busy: float = 0.0
    moved: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Bytes by server, each way."""


class SimulatedChief:
    """Chief that counts its workers' functions from frame to frame."""

    def __init__(self, course: Course, steps: dict[Task, SimulatedSteps]) -> None:
        self._course, self._steps = course, steps
        self._work = {worker: _Work() for worker in steps}
        self._counted = 0.0
        self._started = 0.0

    def report(self, at: float, started: float, begin: float) -> Coordinator:
        """Return the state at a time, in an attempt since `started`; the simulation began at `begin`, Unix seconds."""
        if started != self._started:
            self._started, self._work = started, {worker: _Work() for worker in self._steps}
        for worker, steps in self._steps.items():
            self._count(self._work[worker], worker, steps, at)
        self._counted = at
        functions = tuple(self._functions(worker, at, begin) for worker in self._steps)
        return Coordinator(begin + at, _QUEUED, max(0.0, at - started), None, functions)

    def _count(self, work: _Work, worker: Task, steps: SimulatedSteps, at: float) -> None:
        rows = slice(*np.searchsorted(steps.end, [self._counted, at], side="right"))
        made = rows.stop - rows.start
        work.finished += made
        work.busy += float(steps.phases_of(worker, rows)[2:].sum())
        for server in self._course.servers:
            work.moved[str(server)] += made * BYTES * server_share(self._course, server, at)

    def _functions(self, worker: Task, at: float, begin: float) -> WorkerFunctions:
        work, stuck = self._work[worker], self._course.standing(worker, at)
        traffic = tuple(ServerTraffic(server, int(moved), int(moved)) for server, moved in work.moved.items())
        return WorkerFunctions(
            worker=str(worker),
            finished=work.finished,
            failed=0,
            busy=work.busy,
            idle=max(0.0, at - self._started - work.busy),
            since=begin + stuck.begin if stuck is not None else None,
            traffic=traffic,
        )
