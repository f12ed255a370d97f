"""The agent's two servers: the sockets that they hold, and those that they refuse to serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from running_agents import W0, W1, agent, runs
from tfscale.agent.daemon import Daemon
from tfscale.agent.serving.servers import ReportServer, ServerError
from tfscale.agent.settings import AgentSettings
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.security import open_channel
from tfscale.v1 import agent_pb2, agent_pb2_grpc


async def test_health_and_description(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0)
    async with agent(settings), open_channel(settings.listen, settings.cluster) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="tfscale.v1.Agent")
        answer = await health.Check(request, wait_for_ready=True)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        description = await agent_pb2_grpc.AgentStub(channel).Describe(agent_pb2.DescribeRequest())
    assert (description.task, description.lead, description.generation) == ("worker:0", "worker:0", 1)
    assert description.log_path == str(settings.files.log)


async def test_a_busy_port_is_one_clear_error_before_anything_starts(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings_of(W0)) as running:
        await runs(settings_of(W0))
        other = replace(settings_of(W1), listen=settings_of(W0).listen)
        with pytest.raises(ServerError, match="Address already in use"):
            await Daemon(other).run()
        assert not running.done()


def test_the_socket_of_reports_is_gone_when_the_agent_has_ended(tmp_path: Path) -> None:
    socket = tmp_path / "r.sock"

    async def serve() -> bool:
        server = ReportServer(socket, ProbeReports(W1))
        await server.start()
        was_there = socket.is_socket()
        await server.stop()
        return was_there

    assert asyncio.run(serve()) and not socket.exists()


async def test_a_socket_that_cannot_be_made_is_one_clear_error() -> None:
    with pytest.raises(ServerError, match=r"/proc/none/r\.sock"):
        await ReportServer(Path("/proc/none/r.sock"), ProbeReports(W1)).start()
