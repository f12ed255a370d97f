"""Agents whose answers are no messages, or make no sense: the console says each in a line."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import fakes
import grpc.aio
import pytest
from google.protobuf.message import Message
from mutations import mutated
from tfscale.console.doctor.examination_round import ExaminationRound
from tfscale.console.sources.cluster_finder import ask_agent
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.cluster.cluster_spec import Address, ClusterError, ClusterSpec
from tfscale.v1 import agent_pb2, preflight_pb2

W0 = fakes.worker(0)


_STREAMS = ("FollowLog", "Restart", "Profile", "Examine")


class _Answers(grpc.GenericRpcHandler):
    def __init__(self, answer: Callable[[], bytes]) -> None:
        self._answer = answer

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method.endswith(_STREAMS):
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._once)

    async def _once(self, *_: Any) -> bytes:
        return self._answer()

    async def _stream(self, *_: Any) -> AsyncIterator[bytes]:
        yield self._answer()


@asynccontextmanager
async def answering(answer: bytes | Callable[[], bytes]) -> AsyncIterator[tuple[Address, AgentCommands]]:
    """Answer each call with these bytes, or those of the function; yield the address, and commands to a task there."""
    server = grpc.aio.server(handlers=[_Answers((lambda: answer) if isinstance(answer, bytes) else answer)])
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
        with pytest.raises(CommandError, match="its answer is no message of tfscale"):
            _ = [progress async for progress in commands.order("restart", [W0])]
        with pytest.raises(CommandError, match=f"--agent {address}: its answer is no message"):
            await ask_agent(address, None, insecure=False)
    assert not caplog.text


async def test_an_answer_that_makes_no_sense_is_an_error_of_the_command() -> None:
    async with answering(agent_pb2.StackReply(at=math.nan, text="File").SerializeToString()) as (_, commands):
        with pytest.raises(CommandError, match="makes no sense: a time is nan, which is no date"):
            await commands.stack(W0)
    for made_up in (agent_pb2.Progress(at=math.inf), agent_pb2.Progress(tasks=["?"])):
        async with answering(made_up.SerializeToString()) as (_, commands):
            with pytest.raises(CommandError, match=r"cannot restart: .*: its answer makes no sense"):
                _ = [progress async for progress in commands.order("restart", [W0])]
    for cluster in ("{", "[" * 50_000):
        async with answering(agent_pb2.Description(cluster=cluster).SerializeToString()) as (address, _):
            with pytest.raises(ClusterError, match="its cluster is not JSON"):
                await ask_agent(address, None, insecure=False)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\xff" * 9, "its answer is no message"),
        (preflight_pb2.ReachReply(at=math.nan).SerializeToString(), "a time is nan"),
    ],
    ids=["no message", "no sense"],
)
async def test_the_doctor_says_what_is_made_up(answer: bytes, said: str) -> None:
    async with answering(answer) as (address, _):
        channels = Channels(ClusterSpec("c", {W0: address}, {W0: address}))
        checkup = await ExaminationRound(channels, random.Random(1)).checkup(has_bandwidth=False)
        await channels.close()
    assert said in checkup.answers[W0].problem


async def _see_stack(commands: AgentCommands) -> None:
    await commands.stack(W0)


async def _restart(commands: AgentCommands) -> None:
    _ = [progress async for progress in commands.order("restart", [W0])]


@pytest.mark.parametrize(
    ("whole", "command"),
    [
        (agent_pb2.StackReply(at=fakes.NOW, pid=7, text="File a.py, line 7"), _see_stack),
        (agent_pb2.Progress(stage=agent_pb2.STAGE_DONE, tasks=["worker:0"], at=fakes.NOW, message="well"), _restart),
    ],
    ids=["stack", "restart"],
)
async def test_a_damaged_answer_is_read_or_is_an_error_of_the_command(
    whole: Message, command: Callable[[AgentCommands], Awaitable[None]]
) -> None:
    rng, read = random.Random(7), 0
    async with answering(lambda: mutated(whole.SerializeToString(), rng)) as (_, commands):
        for _ in range(300):
            try:
                await command(commands)
                read += 1
            except CommandError as error:
                assert "\n" not in str(error)
    assert 0 < read < 300
