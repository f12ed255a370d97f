"""The agent's server: the port that it holds, and those that it refuses to serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from running_agents import W0, W1, agent, runs
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.serving.agent_server import ServerError
from tfscale.agent.settings import AgentSettings
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
