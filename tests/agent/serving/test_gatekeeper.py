"""Callers of an agent, and what they may do: by certificate, by token, and by a user of the machine who has neither."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import grpc
import grpc.aio
import pytest
from certificates import Issuer
from running_agents import W0, agent, command, named, runs, status_when, stub
from tfscale.agent.settings import AgentSettings
from tfscale.core.access.call_rights import CALLS, needs_token
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.cluster_spec import ClusterSpec, Tls
from tfscale.core.cluster.local.agent_token import TOKEN_KEY
from tfscale.core.cluster.security import open_channel
from tfscale.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    consensus_pb2,
    placement_pb2,
    preflight_pb2,
    preflight_pb2_grpc,
    relay_pb2,
)

SettingsOf = Callable[..., AgentSettings]
REQUESTS = {
    "Describe": agent_pb2.DescribeRequest,
    "Watch": lambda: agent_pb2.WatchRequest(schema_version=1),
    "FollowLog": agent_pb2.FollowLogRequest,
    "Stack": agent_pb2.StackRequest,
    "Restart": lambda: agent_pb2.TasksRequest(tasks=["worker:0"], reason="because"),
    "Stop": agent_pb2.TasksRequest,
    "Start": agent_pb2.TasksRequest,
    "Profile": agent_pb2.ProfileRequest,
    "Order": lambda: agent_pb2.OrderRequest(name="uncordon", argument="host-b"),
    "Apply": agent_pb2.ApplyRequest,
    "ReportFailure": agent_pb2.FailureReport,
    "Examine": preflight_pb2.ExamineRequest,
    "Reach": preflight_pb2.ReachRequest,
    "Send": preflight_pb2.SendRequest,
}
OTHER_USER = """
import asyncio, os, sys
import grpc, grpc.aio
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Task
from tfscale.v1 import agent_pb2, agent_pb2_grpc

async def main():
    address, task = parse_address(sys.argv[1]), Task.parse("worker:0")
    async with open_channel(address, ClusterSpec("test", {task: address}, {task: address})) as channel:
        stub = agent_pb2_grpc.AgentStub(channel)
        print((await stub.Describe(agent_pb2.DescribeRequest())).task)
        try:
            async for _ in stub.Restart(agent_pb2.TasksRequest(tasks=["worker:0"])):
                print("restarts")
        except grpc.aio.AioRpcError as error:
            print(error.code().name, error.details())

os.setgroups([]), os.setgid(65534), os.setuid(65534)
asyncio.run(main())
"""


@pytest.fixture
def settings_of(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> Callable[..., AgentSettings]:
    """Return a function that makes the settings of a cluster's only worker."""
    cluster = make_cluster(1)
    return lambda task, **changes: make_settings(cluster, task, **changes)


async def refused(channel: grpc.aio.Channel) -> dict[str, str]:
    """Make every call, and return the words with which the gatekeeper refuses some of them."""
    found, service, preflight = {}, agent_pb2_grpc.AgentStub(channel), preflight_pb2_grpc.PreflightStub(channel)
    for name, request in REQUESTS.items():
        call = getattr(service if hasattr(service, name) else preflight, name)(request(), timeout=10)
        try:
            if isinstance(call, grpc.aio.UnaryUnaryCall):
                await call
            else:
                async for _ in call:
                    if name in ("Watch", "Examine"):  # they do not end
                        break
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                found[name] = error.details() or ""
        call.cancel()
    return found


def bare(settings: AgentSettings) -> grpc.aio.Channel:
    """Return the channel of one who does not know of tokens."""
    return grpc.aio.insecure_channel(str(settings.listen))


def audited(settings: AgentSettings) -> list[dict[str, object]]:
    return [json.loads(line) for line in settings.files.audit.read_text().splitlines()]


def test_every_call_of_the_services_has_a_row() -> None:
    agents = agent_pb2.DESCRIPTOR.services_by_name["Agent"].methods_by_name
    preflights = preflight_pb2.DESCRIPTOR.services_by_name["Preflight"].methods_by_name
    placements = placement_pb2.DESCRIPTOR.services_by_name["Placement"].methods_by_name
    votes = consensus_pb2.DESCRIPTOR.services_by_name["Consensus"].methods_by_name
    relays = relay_pb2.DESCRIPTOR.services_by_name["Relay"].methods_by_name
    assert set(CALLS) == {*agents, *preflights, *placements, *votes, *relays}
    # Relays: test_relay_service.py; placements: tests/agent/life/test_placed_agent.py; votes:
    # tests/agent/consensus/test_voter_peer.py
    assert set(REQUESTS) == {*agents, *preflights}


async def test_on_loopback_only_the_same_user_may_order_and_read_what_is_private(settings_of: SettingsOf) -> None:
    async with agent(settings := settings_of(W0)):
        await runs(settings)
        async with bare(settings) as channel:
            said = await refused(channel)
            assert set(said) == set(filter(needs_token, REQUESTS)) == set(REQUESTS) - {"Watch", "Describe"}
            assert said["Restart"].startswith(
                f"Restart is for user {os.getuid()} alone, who can read this agent's token"
            )
            assert "--insecure-loopback" in said["Restart"] and "\n" not in said["Restart"]
            service = agent_pb2_grpc.AgentStub(channel)
            wrong = service.Stack(agent_pb2.StackRequest(), metadata=[(TOKEN_KEY, "wrong")])
            assert await wrong.code() is grpc.StatusCode.PERMISSION_DENIED
        async with open_channel(settings.listen, settings.cluster) as channel:
            assert await refused(channel) == {}


async def test_insecure_loopback_lets_every_user_order(settings_of: SettingsOf) -> None:
    async with agent(settings := settings_of(W0, insecure_loopback=True)):
        await runs(settings)
        async with bare(settings) as channel:
            assert await refused(channel) == {}
    assert {entry["who"] for entry in audited(settings)} == {"loopback"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.usefixtures("source_roots")
async def test_another_user_of_the_machine_sees_and_does_not_order(settings_of: SettingsOf) -> None:
    async with agent(settings := settings_of(W0)):
        before = await runs(settings)
        command = [sys.executable, "-c", OTHER_USER, str(settings.listen)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        told = (await process.communicate())[0].decode().splitlines()
        after = await runs(settings)
    assert told[0] == "worker:0" and told[1].startswith("PERMISSION_DENIED Restart is for user 0 alone")
    assert len(told) == 2 and (after.pid, after.generation) == (before.pid, before.generation)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("pki") / "own")


def with_tls(settings: AgentSettings, tls: Tls) -> AgentSettings:
    return replace(settings, cluster=replace(settings.cluster, tls=tls))


async def test_each_role_may_do_what_it_is_for(settings_of: SettingsOf, issuer: Issuer) -> None:
    settings = with_tls(settings_of(W0), issuer.tls("host"))
    read, orders = {"FollowLog", "Stack"}, {"Restart", "Stop", "Start", "Profile", "Order", "Examine", "Reach", "Send"}
    of_agents = {"Apply", "ReportFailure"}
    callers = {
        issuer.tls("peer"): set(),
        issuer.tls("ann", CallerRole.OPERATOR, []): of_agents,
        issuer.tls("eve", CallerRole.OBSERVER, []): of_agents | orders,
        issuer.without_role("old"): of_agents | orders | read,
    }
    said = {}
    async with agent(settings):
        await runs(settings)
        for tls, forbidden in callers.items():
            cluster = with_tls(settings, tls).cluster
            async with open_channel(settings.listen, cluster) as channel:
                said[tls.certificate.stem] = await refused(channel)
            assert set(said[tls.certificate.stem]) == forbidden, tls
    assert said["eve"]["Restart"] == (
        "Restart needs the role operator, and the certificate is that of eve (observer): make one with tfscale-agent "
        'certificates, or give agents roles = "off" in [tls]'
    )
    assert "is that of old (no role)" in said["old"]["Restart"]


async def test_with_roles_off_every_certificate_of_the_authority_may_order(
    settings_of: SettingsOf, issuer: Issuer
) -> None:
    old = replace(issuer.without_role("old"), has_roles=False)
    async with agent(settings := with_tls(settings_of(W0), old)):
        await runs(settings)
        async with open_channel(settings.listen, settings.cluster) as channel:
            assert await refused(channel) == {}
    assert {entry["who"] for entry in audited(settings)} == {"old"}


async def test_every_order_is_written_down_also_a_refused_one(settings_of: SettingsOf) -> None:
    async with agent(settings := settings_of(W0)):
        await runs(settings)
        await command(settings, "Restart", "worker:0")
        assert await status_when(settings, lambda status: status.reason == f"test by user {os.getuid()}")
        with pytest.raises(grpc.aio.AioRpcError):
            await command(settings, "Restart", "worker:9")
        async with bare(settings) as channel, stub(settings) as own:
            service = agent_pb2_grpc.AgentStub(channel)
            assert await service.Apply(agent_pb2.ApplyRequest(reason="x" * 9999, to=named(settings))).code() is (
                grpc.StatusCode.PERMISSION_DENIED
            )
            await own.Apply(
                agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_STOPPABLE, generation=9, to=named(settings))
            )
            chunks = own.FollowLog(agent_pb2.FollowLogRequest(tail=99, orders=True, to=named(settings)))
            told = [json.loads(line) async for chunk in chunks for line in chunk.lines]
    entries = audited(settings)
    assert told == entries
    me = f"user {os.getuid()}"
    assert [(entry["order"], entry["who"], entry["what"]) for entry in entries] == [
        *[(1, me, "Restart")] * 2,
        *[(2, me, "Restart")] * 2,
        (3, "loopback", "Apply UNSPECIFIED 0"),
    ]
    results = [str(entry["result"]) for entry in entries]
    assert results[:3] == ["asked", "done", "asked"] and results[3].startswith("refused: ")
    assert results[4].startswith("refused: Apply is for user") and len(str(entries[4]["reason"])) < 400
    assert entries[0]["tasks"] == ["worker:0"] and entries[0]["reason"] == "test"
    assert str(entries[0]["from"]).startswith("ipv4:127.0.0.1:")
    assert settings.files.audit.stat().st_mode & 0o777 == 0o600


async def test_an_agent_that_serves_beyond_loopback_in_plain_text_asks_nobody(settings_of: SettingsOf) -> None:
    everywhere = replace(settings_of(W0).listen, host="0.0.0.0")
    async with agent(settings_of(W0, listen=everywhere, insecure=True)):
        await runs(settings_of(W0))
        async with bare(settings_of(W0)) as channel:
            assert await refused(channel) == {}


async def test_a_call_that_waited_for_a_new_agent_brings_its_token(settings_of: SettingsOf) -> None:
    """The metadata of a call is fixed before the agent that it waits for is there."""
    settings = settings_of(W0)
    request = agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_STOPPABLE, generation=5, to=named(settings))
    async with open_channel(settings.listen, settings.cluster) as channel:
        call = agent_pb2_grpc.AgentStub(channel).Apply(request, wait_for_ready=True, timeout=20)
        waiting = asyncio.ensure_future(call)
        await asyncio.sleep(0.3)
        async with agent(settings):
            assert (await waiting).generation <= 5


@pytest.mark.parametrize(("method", "streams"), [("Describe", False), ("Watch", True), ("Restart", True)])
async def test_bytes_that_are_no_message_are_refused_with_one_line_and_no_traceback(
    settings_of: Callable[..., AgentSettings], method: str, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent(settings := settings_of(W0)):
        before = await runs(settings)
        async with open_channel(settings.listen, settings.cluster) as channel:
            path = f"/tfscale.v1.Agent/{method}"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                if streams:
                    async for _ in channel.unary_stream(path)(b"\xff" * 9):
                        pass
                else:
                    await channel.unary_unary(path)(b"\xff" * 9)
        async with stub(settings) as service:
            assert (await service.Describe(agent_pb2.DescribeRequest())).task == "worker:0"
        assert (await runs(settings)).pid == before.pid
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (caught.value.details() or "").startswith("the request is no message of the service")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
