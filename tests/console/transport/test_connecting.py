"""Agents that come and go, over real gRPC: the snapshot is right again within 3 s, and no step is missing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from fake_agent import FakeAgent, FakeCluster
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, FrameArrived, LinkState
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.task import Task

NAP = 0.05
TRUE_AGAIN = 60
"""Pauses: 3 s on an idle machine, and on a busy one as many turns of this process."""


async def rest() -> None:
    for _ in range(TRUE_AGAIN):
        await asyncio.sleep(NAP)


class Watched:
    """Console's view of a cluster: its newest snapshot, and all steps that it got."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.channels = Channels(cluster.spec)
        self.engine = Engine(LiveSource(self.channels), states(cluster.spec))
        self.steps: dict[Task, list[int]] = {task: [] for task in cluster.tasks}

    async def __aenter__(self) -> Watched:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channels.close()

    def event_folded(self, event: Event) -> None:
        if isinstance(event, FrameArrived):
            for batch in event.frame.steps:
                self.steps[event.task] += batch.sequence

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Ignore it: the tests ask for the snapshot when they need it."""

    def links(self) -> dict[Task, LinkState]:
        return {view.task: view.link.state for view in self.engine.state.picture(time.time()).tasks}

    def newest(self) -> dict[Task, float]:
        views = self.engine.state.picture(time.time()).tasks
        return {view.task: view.frame.at if view.frame else 0.0 for view in views}


class Troubled:
    """Agent that is killed, started, cut off and connected again."""

    def __init__(self, agent: FakeAgent) -> None:
        self.agent = agent
        self.is_there = self.is_heard = True

    async def trouble(self, what: str) -> None:
        if what == "kill" and self.is_there:
            await self.agent.stop()
            self.is_there = False
        elif what == "start" and not self.is_there:
            await self.agent.start()
            self.is_there = True
        elif what in ("cut", "connect"):
            self.agent.is_stalled = what == "cut"
            self.is_heard = what != "cut"


@asynccontextmanager
async def running(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def suffer(seed: int) -> None:
    """Play one random sequence; the snapshot is right 3 s after each trouble and 3 s after the end."""
    chance = random.Random(seed)
    async with FakeCluster(3, interval=0.1) as cluster, Watched(cluster) as watched:
        async with running(cluster.play(), watched.engine.run(watched)):
            await asyncio.sleep(1.0)
            troubled = {task: Troubled(agent) for task, agent in cluster.agents.items()}
            for _ in range(6):
                agent = chance.choice(list(troubled.values()))
                await agent.trouble(chance.choice(("kill", "start", "cut", "connect")))
                await asyncio.sleep(chance.uniform(0.0, 0.4))
            await rest()
            links = watched.links()
            assert {task: link is LinkState.UP for task, link in links.items()} == {
                task: agent.is_there and agent.is_heard for task, agent in troubled.items()
            }, seed
            for agent in troubled.values():
                await agent.trouble("start")
                await agent.trouble("connect")
            healed = time.time()
            await rest()
            assert set(watched.links().values()) == {LinkState.UP}, seed
            assert min(watched.newest().values()) > healed, seed
        for task, steps in watched.steps.items():
            assert steps == list(range(steps[0], steps[0] + len(steps))), (seed, task)


async def test_ten_random_sequences_leave_no_hole_and_no_untruth() -> None:
    async with asyncio.TaskGroup() as group:
        for seed in range(10):
            group.create_task(suffer(seed))


async def test_who_comes_late_gets_what_the_agents_kept() -> None:
    async with FakeCluster(2, interval=0.05) as cluster, running(cluster.play()):
        await asyncio.sleep(1.0)
        async with Watched(cluster) as watched, running(watched.engine.run(watched)):
            await asyncio.sleep(0.8)
        for steps in watched.steps.values():
            assert steps[0] == 0 and len(steps) > 10
