"""Greetings of agents that answer, that are gone and that are silent; and real ones over a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running_agents import W1, agent
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.network.greetings import Greetings
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.records import Neighbour

OWN, OTHER = Task.parse("worker:0"), Task.parse("worker:1")


def two_hosts() -> ClusterSpec:
    document = {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}}
    return parse_cluster(document, name="test", where="test", base=Path.cwd())


class Agent:
    """Agent that does what it is told: answer, refuse or be silent."""

    def __init__(self) -> None:
        self.does = "answer"

    async def greet(self, patience: float) -> bool:
        if self.does == "be silent":
            await asyncio.sleep(patience / 100)
            raise TimeoutError
        return self.does == "answer"


async def newest(greetings: Greetings) -> Neighbour:
    await asyncio.sleep(1.1)
    (neighbour,) = greetings.heard
    return neighbour


async def test_a_neighbour_is_heard_refused_and_missed() -> None:
    other = Agent()
    greetings = Greetings(two_hosts(), OWN, {OTHER: other})
    assert greetings.heard == (Neighbour("worker:1", None),)
    greetings.start()
    answered = await newest(greetings)
    assert answered.heard == pytest.approx(time.time(), abs=1.2) and answered.round_trip is not None
    other.does = "refuse"
    refused = await newest(greetings)
    assert refused.refused and refused.heard is not None
    other.does = "be silent"
    silent = await newest(greetings)
    greetings.stop()
    assert not silent.refused and silent.heard == refused.heard


async def test_a_real_agent_answers_and_when_it_is_gone_its_host_refuses(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W1)
    peer = Peer(settings.cluster, W1, insecure=False)
    assert not await peer.greet(5)
    async with agent(settings), asyncio.timeout(20):
        while not await peer.greet(5):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await peer.close()
