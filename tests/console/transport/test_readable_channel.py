"""Agents whose answers are no messages, or make no sense: each is a CommandError, which the console says in a line."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import fakes
import grpc.aio
import pytest
from tfscale.console.sources.cluster_finder import ask_agent
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.cluster.cluster_spec import Address, ClusterError, ClusterSpec
from tfscale.v1 import agent_pb2

W0 = fakes.worker(0)


class _Answers(grpc.GenericRpcHandler):
    def __init__(self, data: bytes) -> None:
        self._data = data

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method.endswith("FollowLog"):
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._once)

    async def _once(self, *_: Any) -> bytes:
        return self._data

    async def _stream(self, *_: Any) -> AsyncIterator[bytes]:
        yield self._data


@asynccontextmanager
async def answering(data: bytes) -> AsyncIterator[tuple[Address, AgentCommands]]:
    """Serve these bytes as the answer to each call; yield the address, and commands to a task there."""
    server = grpc.aio.server(handlers=[_Answers(data)])
    address = Address("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    channels = Channels(ClusterSpec("c", {W0: address}, {W0: address}))
    try:
        yield address, AgentCommands(channels)
    finally:
        await channels.close()
        await server.stop(None)


async def test_an_answer_that_is_no_message_is_an_error_of_the_command(caplog: pytest.LogCaptureFixture) -> None:
    async with answering(b"\xff" * 9) as (address, commands):
        with pytest.raises(CommandError, match="its answer is no message of tfscale"):
            await commands.stack(W0)
        with pytest.raises(CommandError, match="its answer is no message of tfscale"):
            _ = [lines async for lines in commands.follow_log(W0, 5)]
        with pytest.raises(CommandError, match=f"--agent {address}: its answer is no message"):
            await ask_agent(address, None, insecure=False)
    assert not caplog.text


async def test_an_answer_that_makes_no_sense_is_an_error_of_the_command() -> None:
    async with answering(agent_pb2.StackReply(at=math.nan, text="File").SerializeToString()) as (_, commands):
        with pytest.raises(CommandError, match="has no date"):
            await commands.stack(W0)
    for cluster in ("{", "[" * 50_000):
        async with answering(agent_pb2.Description(cluster=cluster).SerializeToString()) as (address, _):
            with pytest.raises(ClusterError, match="its cluster is not JSON"):
                await ask_agent(address, None, insecure=False)
