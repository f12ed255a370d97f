"""Commands whose lead, or one of whose agents, ends for good in the midst. All agents are real, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from life.placed_cluster import Cluster, MakeSettings, placed, placement_at, seat
from loopback import free_addresses
from running_agents import W0, W1, W2, command, runs, status_when
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.recovery import acting_lead, failure_reporter, host_replacement
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.recovery_policy import RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.task_status import TaskState, TaskStatus

ENDS_LATE = (
    sys.executable,
    "-c",
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.0), sys.exit(143)))\n"
    "while True: time.sleep(0.05)",
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_lead, "SETTLE", 0.2)
    monkeypatch.setattr(host_replacement, "_AGAIN", 0.5)
    monkeypatch.setattr(failure_reporter, "_LEAD_PATIENCE", 0.5)
    monkeypatch.setattr(Peer.__init__, "__defaults__", (1.0,))


@asynccontextmanager
async def left_in(verb: str, cluster: Cluster, *gone: Task) -> AsyncIterator[None]:
    """Run all agents, give a command, and end some of them for good while tasks are being stopped."""
    async with AsyncExitStack() as stack:
        going = AsyncExitStack()
        for name, settings in cluster.seats.items():
            late = replace(settings, command=ENDS_LATE) if name == str(W2) else settings
            await (going if name in map(str, gone) else stack).enter_async_context(seat(late))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        ordered = asyncio.create_task(command(cluster.seats[str(W0)], verb, *map(str, (W0, W1, W2))))
        await status_when(cluster.seats[str(W2)], lambda status: status.state is TaskState.STOPPING)
        await going.aclose()
        yield
        ordered.cancel()
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError, TimeoutError):
            await ordered


async def left(cluster: Cluster, *tasks: Task) -> list[TaskStatus]:
    """Return the statuses of tasks a while after they have been stopped."""
    for task in tasks:
        await status_when(cluster.seats[str(task)], lambda status: status.state is TaskState.EXITED)
    await asyncio.sleep(3.0)
    return [await status_when(cluster.seats[str(task)], lambda _: True) for task in tasks]


@pytest.mark.parametrize("gone", [W0, W1], ids=str)
async def test_a_restart_that_a_host_leaves_for_good_is_finished_without_it(
    make_settings: MakeSettings, gone: Task
) -> None:
    cluster = Cluster(make_settings, replace_after=0.5)
    async with left_in("Restart", cluster, gone):
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        assert placement.seats == {**cluster.spec.agents, gone: cluster.spare}
        statuses = [await placed(cluster.now(placement, task)) for task in (W0, W1, W2)]
    assert len({status.generation for status in statuses}) == 1
    assert "did not join generation 2, without" in statuses[0].reason


async def test_a_restart_that_nobody_finished_is_left_by_the_policy_never(make_settings: MakeSettings) -> None:
    cluster = Cluster(make_settings, replace_after=0.5, by_role=dict.fromkeys(Role, RestartPolicy.NEVER))
    async with left_in("Restart", cluster, W0):
        assert {status.state for status in await left(cluster, W1, W2)} == {TaskState.EXITED}


async def test_a_stop_that_its_lead_did_not_finish_stays_a_stop(make_settings: MakeSettings) -> None:
    cluster = Cluster(make_settings, replace_after=0.5)
    async with left_in("Stop", cluster, W0):
        assert {status.state for status in await left(cluster, W1, W2)} == {TaskState.EXITED}


async def test_what_served_a_finished_chief_is_stopped_once_a_majority_answers(
    make_settings: MakeSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ports = [parse_address(each).port for each in free_addresses(8)]
    here, server, spare = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
    tasks = {Task.parse(name): host for name, host in (("chief:0", here), ("worker:0", here), ("ps:0", server))}
    spec = ClusterSpec(
        "test",
        {task: Address(host, port) for (task, host), port in zip(tasks.items(), ports, strict=False)},
        {task: Address(host, port) for (task, host), port in zip(tasks.items(), ports[3:], strict=False)},
        spares={Address(spare, ports[6]): Address(spare, ports[7])},
    )
    ended = tmp_path / "ended"
    ends = f"import os, time\nwhile not os.path.exists({str(ended)!r}): time.sleep(0.05)"
    chief, worker, ps = (make_settings(spec, task, seat=spec.agents[task]) for task in tasks)
    chief = replace(chief, command=(sys.executable, "-c", ends))
    (free,) = spec.spares
    third = make_settings(spec, spec.lead, seat=free, listen=free)
    async with AsyncExitStack() as stack:
        for settings in (chief, worker):
            await stack.enter_async_context(seat(settings))
        async with seat(ps), seat(third):
            for settings in (chief, worker, ps):
                await runs(settings)
        ended.touch()
        waits = "what served chief:0 runs until a majority agrees: nothing was decided: 2 of 3 agents must agree"
        async with asyncio.timeout(60):
            while waits not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (await status_when(worker, lambda _: True)).state is TaskState.RUNNING
        await stack.enter_async_context(seat(third))
        status = await status_when(worker, lambda status: status.state is TaskState.EXITED)
        assert status.reason == "chief:0 has finished"
