"""Greetings of agents that answer, that are gone and that are silent; and real ones over a real server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running_agents import W1, agent, peer_of
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.network.greetings import Answer, Greetings
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import Neighbour

OWN, OTHER = Task.parse("worker:0"), Task.parse("worker:1")


def two_hosts() -> ClusterSpec:
    document = {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}}
    return parse_cluster(document, name="test", where="test", base=Path.cwd())


class Agent:
    """Agent, or its host, that answers as it is told to."""

    def __init__(self) -> None:
        self.answer = Answer.AGENT

    async def greet(self, patience: float) -> Answer:
        await asyncio.sleep(patience / 100)
        return self.answer


async def newest(greetings: Greetings) -> Neighbour:
    await asyncio.sleep(2.1)
    (neighbour,) = greetings.heard
    return neighbour


async def test_a_neighbour_is_heard_reached_and_missed() -> None:
    other = Agent()
    greetings = Greetings(two_hosts(), OWN, {OTHER: other})
    assert greetings.heard == (Neighbour("worker:1", None),) and greetings.silences() == {}
    greetings.start()
    answered = await newest(greetings)
    assert answered.heard == answered.reached == pytest.approx(time.time(), abs=2.3) and answered.round_trip is not None
    other.answer = Answer.HOST
    alone = await newest(greetings)
    assert greetings.silences()[OTHER] < 2.0
    assert alone.heard is not None and alone.reached is not None and alone.reached > alone.heard
    other.answer = Answer.NOBODY
    silent = await newest(greetings)
    assert greetings.silences()[OTHER] > 2.0
    greetings.stop()
    assert (silent.heard, silent.reached) == (alone.heard, alone.reached)


async def test_a_real_agent_answers_and_when_it_is_gone_its_host_does(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W1)
    peer = peer_of(settings, W1)
    assert await peer.greet(5) is Answer.HOST
    async with agent(settings), asyncio.timeout(60):
        while await peer.greet(5) is not Answer.AGENT:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await peer.close()


async def test_the_host_of_a_stopped_agent_answers(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W1)
    peer = peer_of(settings, W1)
    with socket.create_server((settings.listen.host, settings.listen.port)):
        assert await peer.greet(0.5) is Answer.HOST
    await peer.close()


async def test_of_a_host_that_is_not_there_nobody_answers() -> None:
    spec = parse_cluster(
        {"cluster": {"worker": ["127.0.0.1:1", "nowhere.invalid:1"]}}, name="t", where="t", base=Path()
    )
    peer = Peer(spec, "test", OTHER, ChannelOpener(spec, True, None))
    assert await peer.greet(0.5) is Answer.NOBODY
    await peer.close()
