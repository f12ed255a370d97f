"""Requests that are no messages."""

from __future__ import annotations

import logging
from collections.abc import Callable

import grpc.aio
import pytest
from running_agents import W0, agent, runs, stub
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.security import open_channel
from tfscale.v1 import agent_pb2


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
