"""Links of the console that TLS ends, with the reason that is shown beside the task."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple
from pathlib import Path

import grpc
import grpc.aio
import pytest
from certificates import Issuer
from tfscale.console.engine.events import LinkChanged, LinkState
from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.agent_stream import Patience
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, Tls
from tfscale.core.cluster.task import Task

TASK = Task.parse("worker:0")


@asynccontextmanager
async def served(tls: Tls | None) -> AsyncIterator[Address]:
    """Serve nothing at all, so that a console that gets through finds an agent of another version."""
    server = grpc.aio.server()
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair], tls.ca.read_bytes(), True))
    await server.start()
    yield Address("127.0.0.1", port)
    await server.stop(0)


@asynccontextmanager
async def watched(address: Address, tls: Tls | None) -> AsyncIterator[Callable[[str], asyncio.Task[None]]]:
    """Watch an agent as a console does, and yield a function that waits for a link with these words."""
    channels = Channels(ClusterSpec("test", {TASK: address}, {TASK: address}, tls=tls))
    inbox, seen = Inbox(), list[LinkChanged]()
    running = asyncio.create_task(LiveSource(channels, Patience(0.05, 0.2, 2.0)).run(inbox))

    async def linked(words: str) -> None:
        async with asyncio.timeout(60):
            while not any(words in f"{event.state}: {event.reason}" for event in seen):
                await inbox.wait()
                seen.extend(event for event in inbox.take(100) if isinstance(event, LinkChanged))

    try:
        yield lambda words: asyncio.create_task(linked(words))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await channels.close()


@pytest.fixture
def own(tmp_path: Path) -> Tls:
    return Issuer(tmp_path / "own").tls("agent")


@pytest.fixture
def foreign(tmp_path: Path) -> Tls:
    return Issuer(tmp_path / "foreign").tls("agent")


async def test_a_link_that_tls_ends_says_why(own: Tls, foreign: Tls) -> None:
    for serving, calling, words in (
        (foreign, own, f"{LinkState.DOWN}: its certificate is of another authority"),
        (None, own, f"{LinkState.DOWN}: speaks plain text"),
        (own, None, f"{LinkState.DOWN}: speaks TLS"),
    ):
        async with served(serving) as address, watched(address, calling) as linked:
            await linked(words)


async def test_a_command_that_tls_ends_says_why_and_does_not_ask_whether_an_agent_runs(own: Tls) -> None:
    async with served(None) as address:
        channels = Channels(ClusterSpec("test", {TASK: address}, {TASK: address}, tls=own))
        with pytest.raises(CommandError) as caught:
            await AgentCommands(channels).stack(TASK)
        await channels.close()
    assert str(caught.value) == (
        f"no stack: the agent of worker:0 at {address}: speaks plain text: give both [tls], or both --insecure"
    )


async def test_a_new_certificate_of_the_console_is_used_without_a_new_start(own: Tls, foreign: Tls) -> None:
    async with served(foreign) as address, watched(address, own) as linked:
        await linked("another authority")
        for old, new in zip(astuple(own)[:3], astuple(foreign)[:3], strict=True):
            shutil.copy(new, old)
        await linked(LinkState.VERSION)
