"""Greetings: every two seconds an agent asks its two neighbours whether they are there.

They tell a host that is cut off from a host that has died, and a console that is cut off from a cluster that is cut
off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Protocol

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.neighbours import neighbours
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import Neighbour

PERIOD = 2.0
"""Seconds from one greeting to the next. Measured with two neighbours: each second, greetings alone cost 0.75 % of a
core, and an agent 1.05 to 1.3 % of its 1 %."""
PATIENCE = 1.0
"""Seconds for which an agent's answer is waited for."""


class Answer(Enum):
    """Answer to a greeting."""

    AGENT = "agent"
    HOST = "host"
    """Its host takes a connection or refuses it, but no agent answers: the agent is stopped, or gone."""
    NOBODY = "nobody"


class Greeted(Protocol):
    """Agent of another task that can be greeted."""

    async def greet(self, patience: float) -> Answer:
        """Return who answers within about `patience` seconds. Raises TfscaleError where it cannot be called."""


class Greetings:
    """Newest greeting of each neighbour. Begins with `start`, in the running event loop."""

    def __init__(self, spec: ClusterSpec, own: Task, agents: Mapping[Task, Greeted]) -> None:
        self._agents = {task: agents[task] for task in neighbours(spec, own)}
        self._newest = {task: Neighbour(str(task), None) for task in self._agents}
        self._reached: dict[Task, float] = {}
        """Time at which the host of each neighbour last answered, monotonic seconds."""
        self._jobs: Sequence[asyncio.Task[None]] = ()

    def start(self) -> None:
        self._jobs = [asyncio.create_task(self._greet(task, agent)) for task, agent in self._agents.items()]

    def stop(self) -> None:
        for job in self._jobs:
            job.cancel()

    @property
    def heard(self) -> tuple[Neighbour, ...]:
        return tuple(self._newest.values())

    def silences(self) -> dict[Task, float]:
        """Return the seconds since the host of each neighbour last answered, of those that have."""
        now = time.monotonic()
        return {task: now - reached for task, reached in self._reached.items()}

    async def _greet(self, task: Task, agent: Greeted) -> None:
        while True:
            begin = time.monotonic()
            answer = await agent.greet(PATIENCE)
            took, now = time.monotonic() - begin, time.time()
            if answer is not Answer.NOBODY:
                self._reached[task] = time.monotonic()
            if answer is Answer.AGENT:
                self._newest[task] = Neighbour(str(task), now, took, now)
            elif answer is Answer.HOST:
                self._newest[task] = replace(self._newest[task], reached=now)
            await asyncio.sleep(max(0.0, begin + PERIOD - time.monotonic()))
