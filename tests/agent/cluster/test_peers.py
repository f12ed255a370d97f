"""The task of another agent, which is a real one here: stopped, started, out of reach and back again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from running_agents import W1, agent
from tfscale.agent.cluster.gang import Overtaken
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.settings import AgentSettings
from tfscale.core.records import TaskState


@pytest.fixture
def settings(settings_of: Callable[..., AgentSettings]) -> AgentSettings:
    return settings_of(W1)


@pytest.fixture
async def peer(settings: AgentSettings) -> AsyncIterator[Peer]:
    """Yield worker 1 as the lead's agent reaches it; its agent counts as unreachable after 0.2 s."""
    peer = Peer(settings.cluster, W1, insecure=False, patience=0.2)
    yield peer
    await peer.close()


def fail(why: str) -> None:
    raise AssertionError(why)


async def test_a_peer_is_started_and_fenced_by_its_agent(settings: AgentSettings) -> None:
    async with agent(settings):
        peer = Peer(settings.cluster, W1, insecure=False)
        started = await peer.run(3, "test", fail)
        assert (started.state, started.generation) == (TaskState.RUNNING, 3)
        assert await peer.generation() == 3
        status = await peer.status()
        assert status is not None and status.pid == started.pid
        assert (await peer.fence(4, "test", fail)).state is TaskState.EXITED
        with pytest.raises(Overtaken, match="generation 4, the request is for 2"):
            await peer.run(2, "test", fail)
        await peer.close()


async def test_a_peer_out_of_reach_is_named_once_and_waited_for(
    settings: AgentSettings, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tfscale")
    assert (await peer.generation(), await peer.status()) == (None, None)
    reasons: list[str] = []
    running = asyncio.create_task(peer.run(2, "test", reasons.append))
    while not reasons:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    async with agent(settings), asyncio.timeout(20):
        assert (await running).state is TaskState.RUNNING
    assert reasons == [f"the agent of worker:1 at {settings.listen} does not answer: start it"]
    assert "its agent answers again" in caplog.messages
