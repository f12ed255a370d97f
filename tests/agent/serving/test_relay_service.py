"""Tunnels through an agent: to agents of its cluster alone, so many, for callers who may look, and with bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import psutil
import pytest
from certificates import Issuer
from running_agents import W0, W1, agent, until
from tfscale.agent.network import relayed_connections
from tfscale.agent.serving import relay_service
from tfscale.agent.settings import AgentSettings
from tfscale.console.transport.relay import Relay, RelayError
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.security import ChannelOpener, RenewedChannel, open_channel
from tfscale.core.wire import tunnel as tunnels
from tfscale.core.wire.tunnel import PIECE
from tfscale.v1 import agent_pb2, relay_pb2, relay_pb2_grpc

SettingsOf = Callable[..., AgentSettings]


@asynccontextmanager
async def relaying(settings: AgentSettings) -> AsyncIterator[relay_pb2_grpc.RelayAsyncStub]:
    """Run an agent, and yield the stub of its relay."""
    async with agent(settings), open_channel(settings.listen, settings.cluster) as channel:
        await asyncio.wait_for(channel.channel_ready(), 60)
        yield relay_pb2_grpc.RelayStub(channel)


async def tunnel(stub: relay_pb2_grpc.RelayAsyncStub, settings: AgentSettings, address: object) -> Any:
    """Open a tunnel. Raises AioRpcError where it is refused."""
    call: Any = stub.Tunnel()
    to = agent_pb2.TaskIdentity(fingerprint=settings.cluster.fingerprint)
    await call.write(relay_pb2.TunnelRequest(to=to, address=str(address)))
    assert await call.read() == relay_pb2.TunnelReply()
    return call


async def refusal(stub: relay_pb2_grpc.RelayAsyncStub, settings: AgentSettings, address: object) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tunnel(stub, settings, address)
    return caught.value.code().name, caught.value.details() or ""


@asynccontextmanager
async def served(settings: AgentSettings, answer: Callable[..., Any]) -> AsyncIterator[None]:
    """Serve bytes at the address of another agent."""
    address = settings.cluster.agents[W1]
    server = await asyncio.start_server(answer, address.host, address.port)
    try:
        yield
    finally:
        server.close()


@pytest.fixture
def settings(settings_of: SettingsOf) -> AgentSettings:
    return settings_of(W0, insecure_loopback=True)


async def test_only_agents_of_the_cluster_are_connected_to(settings: AgentSettings) -> None:
    async with relaying(settings) as stub:
        task, other = settings.cluster.tasks[W1], settings.cluster.agents[W1]
        assert await refusal(stub, settings, task) == (
            "NOT_FOUND", f"no agent of this cluster is at {task}: nothing else is relayed"
        )  # fmt: skip
        assert await refusal(stub, settings, other) == ("FAILED_PRECONDITION", "connection refused")
        assert (await refusal(stub, settings, "x"))[0] == "INVALID_ARGUMENT"
        stranger = replace(settings, cluster=replace(settings.cluster, tasks={W0: settings.listen}))
        assert (await refusal(stub, stranger, other))[0] == "NOT_FOUND"


async def test_bytes_go_both_ways_and_a_reader_that_stops_stops_the_sender(settings: AgentSettings) -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        assert await reader.readexactly(5) == b"begin"
        for _ in range(4096):
            writer.write(bytes(PIECE))
            await writer.drain()
            sent += PIECE
        writer.close()

    async with relaying(settings) as stub, served(settings, pour):
        call = await tunnel(stub, settings, settings.cluster.agents[W1])
        await call.write(relay_pb2.TunnelRequest(data=b"begin"))
        await until(lambda: sent > 0)
        await asyncio.sleep(0.5)
        assert sent < 16 << 20, "of 64 MiB, the kernel's buffers of three sockets hold some"
        got = 0
        while (reply := await call.read()) is not grpc.aio.EOF:
            got += len(reply.data)
        assert got == sent == 4096 * PIECE


async def test_tunnels_are_counted_and_an_idle_one_ends(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(relayed_connections, "MOST", 1)
    monkeypatch.setattr(relay_service, "IDLE", 0.5)
    async with relaying(settings) as stub, served(settings, hold):
        other = settings.cluster.agents[W1]
        call = await tunnel(stub, settings, other)
        code, words = await refusal(stub, settings, other)
        assert (code, "relays 1 connection, and no more" in words) == ("RESOURCE_EXHAUSTED", True)
        assert await call.read() is grpc.aio.EOF, "it was idle"
        (await tunnel(stub, settings, other)).cancel()


@pytest.mark.parametrize("how", ["cancel", "half", "idle"])
async def test_a_connection_ends_where_the_other_side_does_not_read(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A host that is cut off takes nothing, either."""
    over = asyncio.Event()

    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()
        writer.transport.abort()

    monkeypatch.setattr(relayed_connections, "MOST", 1)
    monkeypatch.setattr(tunnels, "_LAST", 0.2)
    monkeypatch.setattr(relay_service, "IDLE", 0.5 if how == "idle" else 60)
    async with relaying(settings) as stub, served(settings, deaf):
        other = settings.cluster.agents[W1]
        call = await tunnel(stub, settings, other)
        with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
            async with asyncio.timeout(1):
                while True:
                    await call.write(relay_pb2.TunnelRequest(data=bytes(PIECE)))
        if how == "cancel":
            call.cancel()
        elif how == "half":
            await call.done_writing()
        await asyncio.sleep(1)
        (await tunnel(stub, settings, other)).cancel()
        over.set()


async def test_a_refusal_that_may_come_every_second_is_a_warning_once(
    settings: AgentSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with relaying(settings) as stub:
        for _ in range(20):
            await refusal(stub, settings, settings.cluster.agents[W1])
    assert len([record for record in caplog.records if "refused a request" in record.message]) == 1


async def test_a_caller_must_be_an_observer(settings_of: SettingsOf, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "tls")
    own = settings_of(W0)
    settings = replace(own, cluster=replace(own.cluster, tls=issuer.tls("host")))
    async with agent(settings):
        for tls, expected in (
            (issuer.without_role("old"), "PERMISSION_DENIED"),
            (issuer.tls("eve", CallerRole.OBSERVER, []), "FAILED_PRECONDITION"),
        ):
            async with open_channel(settings.listen, replace(settings.cluster, tls=tls)) as channel:
                stub = relay_pb2_grpc.RelayStub(channel)
                await asyncio.wait_for(channel.channel_ready(), 60)
                code, words = await refusal(stub, settings, settings.cluster.agents[W1])
                assert code == expected, words


async def test_of_two_thousand_that_come_at_once_each_is_carried_or_refused_in_words(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 512 connections that one process begins and accepts at once take longer than that on a busy machine.
    monkeypatch.setattr(relayed_connections, "_PATIENCE", 60.0)
    outcomes: Counter[str] = Counter()
    is_over = asyncio.Event()

    async def come(relay: Relay) -> None:
        try:
            async with relay.tunnel(settings.cluster.agents[W1]):
                outcomes["carried"] += 1
                await is_over.wait()
        except RelayError as error:
            outcomes[str(error)] += 1

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await is_over.wait()
        writer.close()

    opener = ChannelOpener(settings.cluster, settings.insecure, None)
    channel = RenewedChannel(opener, settings.listen)
    async with agent(settings), served(settings, accept):
        await asyncio.wait_for(channel.opened().channel_ready(), 30)
        relay, before = Relay("worker:0", channel, settings.cluster.fingerprint), psutil.Process().num_fds()
        coming = [asyncio.create_task(come(relay)) for _ in range(2000)]
        await until(lambda: outcomes.total() == 2000)
        is_over.set()
        await asyncio.gather(*coming)
        # The agent closes its ends of the connections a moment later; some channels of its own are new.
        await until(lambda: psutil.Process().num_fds() <= before + 8)
        await channel.close()
    assert outcomes.pop("carried") == relayed_connections.MOST
    assert len(outcomes) == 1, outcomes
    (words,) = outcomes
    assert words.startswith("worker:0 does not relay: this agent relays 512 connections, and no more")
