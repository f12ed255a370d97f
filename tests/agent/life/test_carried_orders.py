"""Orders without a call of their own, given to a real agent."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable

import grpc
import grpc.aio
import pytest
from running_agents import W0, agent, named, runs, says, status_when, stub
from tfscale.agent.settings import AgentSettings
from tfscale.core.access.orders import ORDERS
from tfscale.v1 import agent_pb2

SAVES = """import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("saved", flush=True))
print("up", flush=True)
while True: time.sleep(0.05)"""
Settings = Callable[..., AgentSettings]


async def order(settings: AgentSettings, name: str, argument: str) -> str:
    async with stub(settings) as service:
        request = agent_pb2.OrderRequest(to=named(settings), name=name, argument=argument)
        return (await service.Order(request, timeout=10)).done


async def test_a_program_that_saves_on_a_signal_goes_on_and_the_order_is_written_down(settings_of: Settings) -> None:
    async with agent(settings := settings_of(W0, command=(sys.executable, "-c", SAVES))):
        before = await runs(settings)
        await says(settings, "\nup\n")
        assert await order(settings, "signal", "usr1") == f"SIGUSR1 was sent to process {before.pid} of worker:0"
        await says(settings, "\nsaved\n")
        given = rf"SIGUSR1 was sent to process {before.pid} of worker:0 at [\d:]{{8}} by user {os.getuid()}"
        after = await status_when(settings, lambda status: re.fullmatch(given, status.reason))
        assert after.pid == before.pid, "the events of every console tell who gave the order"
    entries = [json.loads(line) for line in settings.files.audit.read_text().splitlines()]
    assert [(each["what"], each["tasks"], each["reason"], each["result"]) for each in entries] == [
        ("Order signal", ["worker:0"], "usr1", result) for result in ("asked", "done")
    ]


@pytest.mark.parametrize(
    ("name", "argument", "code", "words"),
    [
        ("signal", "KILL", grpc.StatusCode.INVALID_ARGUMENT, "no program can handle it: give the order stop"),
        ("signal", "SIGSTOP", grpc.StatusCode.INVALID_ARGUMENT, "no program can handle it: give the order stop"),
        ("signal", "lunch", grpc.StatusCode.INVALID_ARGUMENT, "no signal 'lunch': write a name such as USR1"),
        ("signal", "", grpc.StatusCode.INVALID_ARGUMENT, "no signal ''"),
        ("dance", "x", grpc.StatusCode.INVALID_ARGUMENT, "no order 'dance': this agent carries out"),
        ("uncordon", "host-b", grpc.StatusCode.FAILED_PRECONDITION, "no host is cordoned where tasks stay"),
    ],
)
async def test_an_order_that_is_not_carried_out_is_refused_with_a_reason(
    settings_of: Settings, name: str, argument: str, code: grpc.StatusCode, words: str
) -> None:
    async with agent(settings := settings_of(W0)):
        before = await runs(settings)
        with pytest.raises(grpc.aio.AioRpcError, match=words) as refused:
            await order(settings, name, argument)
        assert refused.value.code() is code and (await runs(settings)).pid == before.pid


async def test_a_task_that_has_ended_gets_no_signal(settings_of: Settings) -> None:
    async with agent(settings := settings_of(W0, command=("sh", "-c", "true"))):
        with pytest.raises(grpc.aio.AioRpcError, match="the task does not run: start it first") as refused:
            await order(settings, "signal", "USR1")
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_an_agent_knows_every_order_of_the_table_that_has_no_call_of_its_own(settings_of: Settings) -> None:
    async with agent(settings := settings_of(W0)):
        await runs(settings)
        for name in (each.name for each in ORDERS.values() if each.is_carried):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await order(settings, name, "nonsense")
            assert not (refused.value.details() or "").startswith("no order")
