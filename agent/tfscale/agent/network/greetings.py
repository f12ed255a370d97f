"""Greetings: each second an agent asks two or three of its neighbours whether they are there.

Who hears whom tells a host that is cut off from one that has died, and a console that is cut off from a cluster that
is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.neighbours import neighbours
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records import Neighbour

PERIOD = 1.0
"""Seconds from one greeting to the next, and for which an answer is waited for."""


class Greeted(Protocol):
    """Agent of another task that can be greeted."""

    async def greet(self, patience: float) -> bool:
        """Return True when it has answered, False where its host says that there is no agent. Raises TimeoutError."""


class Greetings:
    """Newest greeting of each neighbour. Begins with `start`, in the running event loop."""

    def __init__(self, spec: ClusterSpec, own: Task, agents: Mapping[Task, Greeted]) -> None:
        self._agents = {task: agents[task] for task in neighbours(spec, own)}
        self._newest = {task: Neighbour(str(task), None) for task in self._agents}
        self._jobs: Sequence[asyncio.Task[None]] = ()

    def start(self) -> None:
        self._jobs = [asyncio.create_task(self._greet(task, agent)) for task, agent in self._agents.items()]

    def stop(self) -> None:
        for job in self._jobs:
            job.cancel()

    @property
    def heard(self) -> tuple[Neighbour, ...]:
        return tuple(self._newest.values())

    async def _greet(self, task: Task, agent: Greeted) -> None:
        while True:
            begin = time.monotonic()
            try:
                is_there = await agent.greet(PERIOD)
            except (TimeoutError, TfscaleError):
                self._newest[task] = replace(self._newest[task], refused=False)
            else:
                took = time.monotonic() - begin
                answer = Neighbour(str(task), time.time(), took)
                self._newest[task] = answer if is_there else replace(self._newest[task], refused=True)
            await asyncio.sleep(max(0.0, begin + PERIOD - time.monotonic()))
