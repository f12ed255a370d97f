"""The task of another agent, which is a real one here: stopped, started, out of reach and back again."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import authority
from running_agents import W1, agent, agent_process, peer_of
from tfscale.agent.cluster.gang import GangError, Overtaken, Verb
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.security import ChannelOpener, certificates_of
from tfscale.core.records.task_status import Reason, TaskState


@pytest.fixture
def settings(settings_of: Callable[..., AgentSettings]) -> AgentSettings:
    return settings_of(W1)


@pytest.fixture
async def peer(settings: AgentSettings) -> AsyncIterator[Peer]:
    """Yield worker 1 as the lead's agent reaches it; its agent counts as unreachable after 0.8 s."""
    peer = peer_of(settings, W1, patience=0.8)
    yield peer
    await peer.close()


def fail(why: str) -> None:
    raise AssertionError(why)


async def test_a_peer_is_started_and_fenced_by_its_agent(settings: AgentSettings) -> None:
    async with agent(settings):
        peer = peer_of(settings, W1)
        started = await peer.run(3, Reason("test", restarted_for="worker:2"), fail)
        assert (started.state, started.generation) == (TaskState.RUNNING, 3)
        assert (started.reason, started.restarted_for) == ("test", "worker:2")
        assert await peer.generation() == 3
        status = await peer.status()
        assert status is not None and status.pid == started.pid
        assert (await peer.fence(4, Reason("test"), fail, Verb.RESTART)).state is TaskState.EXITED
        with pytest.raises(Overtaken, match="generation 4, the request is for 2"):
            await peer.run(2, Reason("test"), fail)
        await peer.close()


async def test_a_peer_out_of_reach_is_named_once_and_waited_for(
    settings: AgentSettings, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tfscale")
    assert await peer.generation() is None and not peer._channel.is_open  # which would go on trying for ever
    assert await peer.status() is None
    reasons: list[str] = []
    running = asyncio.create_task(peer.run(2, Reason("test"), reasons.append))
    while not reasons:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    async with agent(settings), asyncio.timeout(60):
        assert (await running).state is TaskState.RUNNING
    assert reasons == [f"the agent of worker:1 at {settings.listen} does not answer: start it"]
    assert "its agent answers again" in caplog.messages


async def test_a_start_that_an_ending_agent_hears_is_the_next_ones(settings: AgentSettings) -> None:
    """An agent left its task to the next one between the stop and the start of a restart: half a gang was started."""
    peer = peer_of(settings, W1)
    settings.files.folder.mkdir(parents=True)
    first = Daemon(settings)
    serving = asyncio.create_task(first.run())
    await peer.run(1, Reason("test"), fail)
    await peer.fence(2, Reason("test"), fail, Verb.RESTART)
    first._parts.local.hand_over()  # as `hand_over` does a moment before its server stops
    starting = asyncio.create_task(peer.run(2, Reason("test"), fail))
    await asyncio.sleep(0.5)
    assert not starting.done()
    first.hand_over()
    await serving
    async with agent(settings), asyncio.timeout(60):
        started = await starting
        assert (started.state, started.generation) == (TaskState.RUNNING, 2)
    await peer.close()


async def test_a_request_that_reaches_an_agent_as_it_stops_is_the_next_ones(settings: AgentSettings) -> None:
    """The lead's restart failed: `the agent of worker:1: CANCELLED`."""
    peer = peer_of(settings, W1)
    settings.files.folder.mkdir(parents=True)
    first = Daemon(settings)
    serving = asyncio.create_task(first.run())
    assert await peer.generation(10, wait=True) == 0
    first.hand_over()
    starting = [asyncio.create_task(peer.run(1, Reason("test"), fail)) for _ in range(40)]
    for _ in range(4):
        await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251  # they arrive, and the server has no time for them
    await serving
    async with agent(settings), asyncio.timeout(60):
        assert {started.state for started in await asyncio.gather(*starting)} == {TaskState.RUNNING}
    await peer.close()


SLOW_TO_END = "import signal, time; signal.signal(15, lambda *_: (time.sleep(2), exit())); print('up'); time.sleep(60)"


async def ready(peer: Peer) -> None:
    """Start the task of an agent that is just being started, and wait until it handles SIGTERM."""
    async with asyncio.timeout(60):
        await peer.run(1, Reason("test"), fail)
    await asyncio.sleep(0.5)


@pytest.mark.usefixtures("source_roots")
async def test_a_stop_that_takes_longer_than_an_agents_patience_is_no_silence(
    settings: AgentSettings, peer: Peer
) -> None:
    with agent_process(replace(settings, command=(sys.executable, "-c", SLOW_TO_END))):
        patient = peer_of(settings, W1)
        await ready(patient)
        began, reasons = time.monotonic(), list[str]()
        assert (await peer.fence(2, Reason("test"), reasons.append, Verb.RESTART)).state is TaskState.EXITED
        assert time.monotonic() - began > 2 and reasons == []
        await asyncio.gather(peer.close(), patient.close())


@pytest.mark.usefixtures("source_roots")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_an_agent_that_dies_or_stops_after_it_heard_is_named(settings: AgentSettings, number: int) -> None:
    with agent_process(replace(settings, command=(sys.executable, "-c", SLOW_TO_END))) as process:
        peer = peer_of(settings, W1, patience=1.0)
        patient = peer_of(settings, W1)
        await ready(patient)
        reasons: list[str] = []
        fencing = asyncio.create_task(peer.fence(2, Reason("test"), reasons.append, Verb.RESTART))
        await asyncio.sleep(0.5)
        process.send_signal(number)
        async with asyncio.timeout(60):
            while not reasons:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert not fencing.done() and "does not answer" in reasons[0]
        if number == signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
            assert (await fencing).state is TaskState.EXITED
        fencing.cancel()
        assert len(reasons) == 1
        await asyncio.gather(peer.close(), patient.close())


async def test_a_peer_that_tls_keeps_away_is_named_with_its_fault(
    settings: AgentSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, other = (replace(settings.cluster, tls=authority(tmp_path, name)) for name in ("own", "other"))
    peer = Peer(own, settings.run, W1, ChannelOpener(own, False, certificates_of(own, False)))
    async with agent(replace(settings, cluster=other)):
        async with asyncio.timeout(60):
            while "of another authority" not in caplog.text:
                assert await peer.generation(5) is None
                await asyncio.sleep(0.05)
        with pytest.raises(GangError, match=r"the agent of worker:1 at .*: its certificate is of another"):
            await peer.check(2, is_start=False)
    await peer.close()
    assert caplog.text.count("of another authority") == 1
