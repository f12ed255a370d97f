"""Agents that examine their hosts and try to reach each other, over real gRPC."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from running_agents import W0, W1, agent, named, runs, says, status_when, stub
from tfscale.agent.preflight.contacts import reach, send
from tfscale.agent.preflight.examiner import resolved_names
from tfscale.agent.preflight.task_port import Sink
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2, preflight_pb2, preflight_pb2_grpc, telemetry_pb2

Settings = Callable[..., AgentSettings]


@asynccontextmanager
async def preflight(settings: AgentSettings) -> AsyncIterator[preflight_pb2_grpc.PreflightAsyncStub]:
    async with open_channel(settings.listen, settings.cluster) as channel:
        yield preflight_pb2_grpc.PreflightStub(channel)


def _is_open(settings: AgentSettings) -> bool:
    address = settings.cluster.tasks[settings.task]
    try:
        socket.create_connection((address.host, address.port)).close()
    except ConnectionRefusedError:
        return False
    return True


async def test_a_task_that_does_not_live_is_listened_for_until_the_asker_goes(settings_of: Settings) -> None:
    settings = settings_of(W0, command=("no-such-program",))
    async with agent(settings), preflight(settings) as service, asyncio.timeout(60):
        await status_when(settings, lambda status: status.state is TaskState.EXITED)
        call = service.Examine(preflight_pb2.ExamineRequest(to=named(settings)))
        found = await call.read()
        assert (found.task_lives, found.port) == (False, settings.cluster.tasks[W0].port)
        assert _is_open(settings)
        call.cancel()
        while _is_open(settings):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert [each.purpose for each in found.disks] == ["working folder", "state folder"]
    assert all(0 < each.free <= each.total and not each.problem for each in found.disks)
    assert 0 < found.memory_available <= found.memory_total
    assert found.program.problem.startswith("no Python in the command (no-such-program)")


async def test_the_port_of_a_task_that_lives_is_left_alone(settings_of: Settings) -> None:
    async with agent(settings := settings_of(W0)), preflight(settings) as service, asyncio.timeout(60):
        await runs(settings)
        for receives in (False, True):
            call = service.Examine(preflight_pb2.ExamineRequest(to=named(settings), receives=receives))
            found = await call.read()
            assert found.task_lives and bool(found.port) is receives
            assert found.port != settings.cluster.tasks[W0].port and not _is_open(settings)
            call.cancel()


async def test_two_askers_share_a_listener_and_a_start_frees_the_port(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Settings
) -> None:
    cluster = make_cluster(2)
    port = cluster.tasks[W0].port
    program = (
        f"import socket, time; s = socket.create_server(('', {port})); print('serves', flush=True); time.sleep(60)"
    )
    settings = make_settings(cluster, W0, command=(sys.executable, "-c", program))
    async with agent(settings), preflight(settings) as service, asyncio.timeout(60):
        await says(settings, "\nserves\n")  # the log has the command, too
        to = agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_STOPPED, generation=2, to=named(settings))
        async with stub(settings) as orders:
            await orders.Apply(to)
            calls = [service.Examine(preflight_pb2.ExamineRequest(to=named(settings))) for _ in range(2)]
            assert [((found := await call.read()).port, found.port_problem) for call in calls] == [(port, "")] * 2
            calls[0].cancel()
            await asyncio.sleep(0.2)
            assert _is_open(settings)
            to.target = agent_pb2.ApplyRequest.TARGET_STARTABLE
            await orders.Apply(to)
            to.target = agent_pb2.ApplyRequest.TARGET_RUNNING
            assert (await orders.Apply(to)).state == telemetry_pb2.TASK_STATE_RUNNING
        await status_when(settings, lambda _: settings.files.log.read_text().count("\nserves\n") == 2)
        calls[1].cancel()


async def test_strangers_are_refused_and_a_task_that_is_not_there(settings_of: Settings) -> None:
    async with agent(settings := settings_of(W0)), preflight(settings) as service, asyncio.timeout(60):
        stranger = agent_pb2.TaskIdentity(task="worker:7")
        with pytest.raises(grpc.aio.AioRpcError, match="this is worker:0 of run test"):
            await service.Reach(preflight_pb2.ReachRequest(to=stranger), wait_for_ready=True)
        with pytest.raises(grpc.aio.AioRpcError, match="the cluster has no worker:7"):
            await service.Reach(preflight_pb2.ReachRequest(to=named(settings), tasks=["worker:7"]))
        with pytest.raises(grpc.aio.AioRpcError, match="the cluster has no worker:7"):
            await service.Send(preflight_pb2.SendRequest(to=named(settings), task="worker:7", port=1, seconds=1))
        for seconds in (0, -1, 6, float("nan"), float("inf")):
            request = preflight_pb2.SendRequest(to=named(settings), task="worker:1", port=1, seconds=seconds)
            with pytest.raises(grpc.aio.AioRpcError, match="give more than 0, and at most 5"):
                await service.Send(request)


async def test_what_is_reached_and_what_is_not(make_cluster: Callable[[int], ClusterSpec]) -> None:
    cluster = make_cluster(2)
    sink = Sink(cluster.tasks[W1].port)
    task, its_agent = await reach(cluster, [W1])
    sink.close()
    assert (task.problem, task.is_agent, task.address) == ("", False, str(cluster.tasks[W1]))
    assert (its_agent.problem, its_agent.is_agent) == ("connection refused", True)
    with pytest.raises(UsageError, match="at most 128 at a time"):
        await reach(cluster, [W1] * 129)
    with pytest.raises(UsageError, match="the cluster has no worker:9"):
        await reach(cluster, [Task.parse("worker:9")])


async def test_bytes_are_counted_when_they_have_arrived() -> None:
    sink = Sink(0)
    sent = await send("127.0.0.1", sink.port, 0.2)
    sink.close()
    assert sent.problem == "" and sent.bytes > 1 << 20 and 0.2 <= sent.seconds < 5
    assert (await send("127.0.0.1", sink.port, 0.2)).problem == "connection refused"


async def test_names_of_hosts_are_resolved_and_addresses_are_left_as_they_are() -> None:
    document = {"cluster": {"worker": ["localhost:2222", "127.0.0.1:2223", "no-such-host.invalid:2224"]}}
    found = await resolved_names(parse_cluster(document, name="test", where="test", base=Path.cwd()))
    assert [each.name for each in found] == ["localhost", "no-such-host.invalid"]
    assert "127.0.0.1" in found[0].addresses
    assert found[1].addresses == () and found[1].problem
