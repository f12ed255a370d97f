"""Agents with --exit-with-task: each leaves whatever happened to its task, with a status that tells it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from running_agents import W0, W1, W2, agent, command, named, runs, stub
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.life import first_start
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_state import read_state
from tfscale.agent.supervision.supervisor import SupervisionError, Supervisor
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.v1 import agent_pb2

TERMINATED = -signal.SIGTERM
Settings = Callable[..., AgentSettings]


def ends(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def status_of(settings: AgentSettings) -> int:
    """Return the status with which an agent leaves by itself."""
    async with agent(settings) as running, asyncio.timeout(60):
        return await asyncio.shield(running)


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (ends("raise SystemExit(0)"), 0),
        (ends("raise SystemExit(42)"), 42),
        (ends("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), -signal.SIGSEGV),
        (("no-such-program",), 127),
        ((str(Path(__file__)),), 126),
    ],
)
async def test_it_leaves_with_the_status_of_the_task(settings_of: Settings, program: list[str], status: int) -> None:
    assert await status_of(settings_of(W0, command=tuple(program), exit_with_task=True)) == status


async def test_it_leaves_when_somebody_asks_the_shim_to_end_the_task(settings_of: Settings) -> None:
    settings = settings_of(W0, exit_with_task=True)
    async with agent(settings) as running, asyncio.timeout(60):
        await runs(settings)
        state = read_state(settings.files.shim_state)
        assert state is not None
        os.kill(state.shim_pid, signal.SIGTERM)
        assert await asyncio.shield(running) == TERMINATED


async def test_it_leaves_when_the_task_is_lost(settings_of: Settings) -> None:
    settings = settings_of(W0, exit_with_task=True)
    async with agent(settings) as running, asyncio.timeout(60):
        await runs(settings)
        state = read_state(settings.files.shim_state)
        assert state is not None
        os.kill(state.shim_pid, signal.SIGKILL)
        assert await asyncio.shield(running) == 1


@pytest.mark.parametrize("task", [W0, W1])
async def test_it_leaves_when_the_shim_cannot_be_started(
    settings_of: Settings, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object) -> None:
        raise SupervisionError("the shim cannot be started: no memory")

    monkeypatch.setattr(Supervisor, "start", start)
    monkeypatch.setattr(first_start, "_LEAD_PATIENCE", 0.2)
    assert await status_of(settings_of(task, exit_with_task=True)) == 1


async def test_after_a_stop_every_agent_leaves_and_the_caller_is_told(settings_of: Settings) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        settings = [settings_of(task, exit_with_task=True) for task in (W0, W1, W2)]
        running = [await stack.enter_async_context(agent(each)) for each in settings]
        await asyncio.gather(*map(runs, settings))
        progress = await command(settings[0], "Stop", "worker:1")
        assert await asyncio.gather(*map(asyncio.shield, running)) == [TERMINATED] * 3
    assert progress[-1].stage == agent_pb2.STAGE_DONE


async def test_no_agent_leaves_in_a_restart(settings_of: Settings) -> None:
    async with AsyncExitStack() as stack:
        settings = [settings_of(task, exit_with_task=True) for task in (W0, W1)]
        settings += [settings_of(W2)]
        running = [await stack.enter_async_context(agent(each)) for each in settings]
        await asyncio.gather(*map(runs, settings))
        assert (await command(settings[0], "Restart", "worker:1"))[-1].stage == agent_pb2.STAGE_DONE
        assert not any(each.done() for each in running)


async def test_an_agent_that_was_killed_in_a_stop_leaves_when_it_comes_back(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Settings
) -> None:
    settings = make_settings(make_cluster(1), W0)
    async with agent(settings):
        await runs(settings)
        assert (await command(settings, "Stop", "worker:0"))[-1].stage == agent_pb2.STAGE_DONE
    await Journal(settings.files.journal).update(drained=False)
    assert await status_of(replace(settings, exit_with_task=True)) == TERMINATED


async def test_a_lead_that_cannot_carry_out_its_restart_leaves(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(make_cluster(1), W0, exit_with_task=True)
    start, starts = Supervisor.start, 0

    async def second_fails(supervisor: Supervisor, *given: object) -> object:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise SupervisionError("the shim cannot be started: no memory")
        return await start(supervisor, *given)

    monkeypatch.setattr(Supervisor, "start", second_fails)
    async with agent(settings) as running, asyncio.timeout(60):
        await runs(settings)
        last = (await command(settings, "Restart", "worker:0"))[-1]
        assert (last.stage, last.message) == (agent_pb2.STAGE_FAILED, "the shim cannot be started: no memory")
        assert await asyncio.shield(running) == 1


async def test_whoever_served_a_finished_chief_leaves_well(
    make_settings: Settings, make_cluster: Callable[[int], ClusterSpec], tmp_path: Path
) -> None:
    addresses: Iterator[Address] = iter(make_cluster(3).tasks.values())
    agents: Iterator[Address] = iter(make_cluster(3).agents.values())
    tasks = [Task.parse(name) for name in ("chief:0", "worker:0", "ps:0")]
    cluster = ClusterSpec("test", {task: next(addresses) for task in tasks}, {task: next(agents) for task in tasks})
    ended = tmp_path / "ended"
    chief = ends(f"import os, time\nwhile not os.path.exists({str(ended)!r}): time.sleep(0.05)")
    settings = [
        make_settings(cluster, task, exit_with_task=True, **({"command": chief} if task == tasks[0] else {}))
        for task in tasks
    ]
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        running = [await stack.enter_async_context(agent(each)) for each in settings]
        await asyncio.gather(*map(runs, settings))
        ended.touch()
        assert await asyncio.gather(*map(asyncio.shield, running)) == [0, 0, 0]


async def test_a_request_that_makes_no_sense_lets_no_agent_leave(settings_of: Settings) -> None:
    settings = settings_of(W1, exit_with_task=True)
    target = agent_pb2.ApplyRequest.TARGET_RUNNING
    async with agent(settings) as running, stub(settings) as service, asyncio.timeout(60):
        with suppress(grpc.aio.AioRpcError):
            await service.Apply(agent_pb2.ApplyRequest(target=target, generation=1 << 40, to=named(settings)))
        await asyncio.sleep(0.2)
        assert not running.done()
