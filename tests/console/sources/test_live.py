"""The live source, against fake agents over real gRPC that come, go, and misbehave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing, suppress

import pytest
from fake_agent import FakeCluster
from tfscale.console.engine.events import Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.agent_stream import Patience
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.v1 import agent_pb2, telemetry_pb2

FIRST, SECOND = Task(Role.WORKER, 0), Task(Role.WORKER, 1)
PATIENCE = Patience(first=0.05, longest=0.2, silence=1.0)


class Watched:
    """All events of a source, while it runs."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.events: list[Event] = []
        self._channels = Channels(cluster.spec, insecure=False)
        self._inbox = Inbox()
        self._jobs = [
            asyncio.create_task(LiveSource(self._channels, PATIENCE).run(self._inbox)),
            asyncio.create_task(self._take()),
        ]

    async def _take(self) -> None:
        while True:
            await self._inbox.wait()
            self.events += self._inbox.take(100)
            await asyncio.sleep(0)

    async def until(self, what: Callable[[list[Event]], bool]) -> None:
        async with asyncio.timeout(60):
            while not what(self.events):  # noqa: ASYNC110 - it is many things that are waited for
                await asyncio.sleep(0.02)

    async def aclose(self) -> None:
        for job in self._jobs:
            job.cancel()
        for job in self._jobs:
            with suppress(asyncio.CancelledError):
                await job
        await self._channels.close()


def frames(events: list[Event], task: Task) -> list[FrameArrived]:
    return [event for event in events if isinstance(event, FrameArrived) and event.task == task]


def links(events: list[Event], task: Task) -> list[LinkState]:
    return [event.state for event in events if isinstance(event, LinkChanged) and event.task == task]


async def test_an_agent_that_was_killed_is_found_again_and_the_others_go_on() -> None:
    async with FakeCluster(2, interval=0.1) as cluster, aclosing(Watched(cluster)) as watched:
        playing = asyncio.create_task(cluster.play())
        await watched.until(lambda events: len(frames(events, FIRST)) > 2 and len(frames(events, SECOND)) > 2)
        await cluster.agents[SECOND].stop()
        await watched.until(lambda events: LinkState.DOWN in links(events, SECOND))
        before = len(frames(watched.events, FIRST))
        await watched.until(lambda events: len(frames(events, FIRST)) > before + 2)
        await cluster.agents[SECOND].start()
        await watched.until(lambda events: links(events, SECOND)[-1] is LinkState.UP)
        assert links(watched.events, FIRST) == [LinkState.CONNECTING, LinkState.UP]
        playing.cancel()


@pytest.mark.parametrize(
    ("farewell", "state", "words"),
    [
        (
            {"task_goes_on": True},
            LinkState.LEFT,
            r"the agent left at \d\d:\d\d:\d\d as it was asked to, and the task went on",
        ),
        ({"moves": True}, LinkState.MOVED, r"tasks are placed anew since \d\d:\d\d:\d\d"),
        ({}, LinkState.DOWN, r"the agent ended at \d\d:\d\d:\d\d"),
    ],
)
async def test_an_agent_that_takes_its_leave_is_told_until_one_is_back(
    farewell: dict[str, bool], state: LinkState, words: str
) -> None:
    async with FakeCluster(1, interval=0.1) as cluster, aclosing(Watched(cluster)) as watched:
        playing = asyncio.create_task(cluster.play())
        await watched.until(lambda events: len(frames(events, FIRST)) > 2)
        agent = cluster.agents[FIRST]
        agent.farewell = agent_pb2.Farewell(**farewell)
        await watched.until(lambda events: links(events, FIRST)[-1] is state)
        await agent.stop()
        before = len(watched.events)
        await asyncio.sleep(1)
        assert links(watched.events[before:], FIRST) == []
        told = [event.reason for event in watched.events if isinstance(event, LinkChanged)][-1]
        assert re.fullmatch(words, told)
        agent.farewell = None
        await agent.start()
        await watched.until(lambda events: links(events, FIRST)[-1] is LinkState.UP)
        playing.cancel()


async def test_another_schema_is_said_and_nothing_of_it_taken() -> None:
    async with (
        FakeCluster(1, interval=0.1, schema=SCHEMA_VERSION + 1) as cluster,
        aclosing(Watched(cluster)) as watched,
    ):
        playing = asyncio.create_task(cluster.play())
        await watched.until(lambda events: LinkState.VERSION in links(events, FIRST))
        assert frames(watched.events, FIRST) == []
        playing.cancel()


async def test_a_silent_agent_is_given_up_and_tried_again() -> None:
    async with FakeCluster(1, interval=0.1) as cluster, aclosing(Watched(cluster)) as watched:
        cluster.tick()
        await watched.until(lambda events: LinkState.UP in links(events, FIRST))
        await watched.until(lambda events: LinkState.DOWN in links(events, FIRST))
        await watched.until(lambda events: links(events, FIRST).count(LinkState.UP) > 1)


async def test_a_frame_that_cannot_be_read_is_said_and_what_comes_after_it_is_taken() -> None:
    async with FakeCluster(2, interval=0.1) as cluster, aclosing(Watched(cluster)) as watched:
        await watched.until(
            lambda events: LinkState.UP in links(events, SECOND) and LinkState.UP in links(events, FIRST)
        )
        cluster.agents[SECOND].tell(
            telemetry_pb2.StepBatch(reporter="nobody", subject="nobody", sequence=[1], end=[2.0])
        )
        await watched.until(lambda events: LinkState.DOWN in links(events, SECOND))
        assert any(
            isinstance(event, LinkChanged) and "cannot be read: steps: 'nobody'" in event.reason
            for event in watched.events
        )
        playing = asyncio.create_task(cluster.play())
        before = len(frames(watched.events, SECOND))
        await watched.until(lambda events: len(frames(events, SECOND)) > before + 3)
        assert links(watched.events, FIRST) == [LinkState.CONNECTING, LinkState.UP]
        playing.cancel()


async def test_an_agent_of_which_nothing_can_be_read_stays_down_until_something_can() -> None:
    async with FakeCluster(1, interval=0.1) as cluster, aclosing(Watched(cluster)) as watched:
        agent = cluster.agents[FIRST]
        await watched.until(lambda events: LinkState.UP in links(events, FIRST))
        agent.is_mad = True
        playing = asyncio.create_task(cluster.play())
        await watched.until(lambda _: agent.watches > 4)
        assert links(watched.events, FIRST) == [LinkState.CONNECTING, LinkState.UP, LinkState.DOWN]
        agent.is_mad = False
        await watched.until(lambda events: links(events, FIRST)[-1] is LinkState.UP)
        playing.cancel()


async def test_a_task_of_another_run_than_the_leads_is_not_shown() -> None:
    async with FakeCluster(2) as cluster, aclosing(Watched(cluster)) as watched:
        await watched.until(lambda events: len(frames(events, FIRST)) > 1 and len(frames(events, SECOND)) > 1)
        cluster.agents[FIRST].run = "digits"
        await cluster.agents[FIRST].stop()
        await cluster.agents[FIRST].start()
        await watched.until(lambda events: LinkState.REFUSED in links(events, SECOND))
        reason = next(
            event.reason
            for event in reversed(watched.events)
            if isinstance(event, LinkChanged) and event.reason and event.task == SECOND
        )
        assert reason == "is an agent of run fake, and that of worker:0 of run digits: give both the same --run"
        cluster.agents[SECOND].run = "digits"
        seen = len(frames(watched.events, SECOND))
        await watched.until(
            lambda events: len(frames(events, SECOND)) > seen and links(events, SECOND)[-1] is LinkState.UP
        )


async def test_a_task_that_no_agent_holds_is_vacant_until_one_does() -> None:
    async with FakeCluster(2) as cluster, aclosing(Watched(cluster)) as watched:
        playing = asyncio.create_task(cluster.play())
        await watched.until(lambda events: bool(frames(events, FIRST) and frames(events, SECOND)))
        agents = cluster.spec.agents
        watched._channels.follow(Placement(3, {FIRST: agents[FIRST]}).to_json())
        await watched.until(lambda events: links(events, SECOND)[-1] is LinkState.VACANT)
        watched._channels.follow(Placement(4, agents).to_json())
        await watched.until(lambda events: links(events, SECOND)[-1] is LinkState.UP)
        assert LinkState.VACANT not in links(watched.events, FIRST)
        playing.cancel()
