"""Orders that are given to another agent than the lead's, or whose agent falls silent. All agents are real."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from life.placed_cluster import Cluster, MakeSettings, placed, placement_at, restart_without, seat
from running_agents import W0, W1, W2, agent_process, command, named, runs, status_when, stub
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.cluster import security
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.recovery_policy import RestartPolicy
from tfscale.core.cluster.task import Role
from tfscale.core.records.task_status import Stage, TaskState
from tfscale.v1 import agent_pb2


@pytest.fixture
def cluster(make_settings: MakeSettings) -> Cluster:
    return Cluster(make_settings, by_role=dict.fromkeys(Role, RestartPolicy.NEVER))


@asynccontextmanager
async def running(cluster: Cluster, *dead: str) -> AsyncIterator[None]:
    """Run all agents, then end some of them."""
    async with AsyncExitStack() as stack:
        going = AsyncExitStack()
        for name, settings in cluster.seats.items():
            await (going if name in dead else stack).enter_async_context(seat(settings))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        await going.aclose()
        yield


async def test_an_order_to_any_agent_is_carried_to_the_lead_and_says_by_whom(cluster: Cluster) -> None:
    async with running(cluster):
        progress = await command(cluster.seats["worker:2"], "Restart", "worker:1")
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        status = await status_when(cluster.seats["worker:0"], lambda status: status.generation == 2)
        user = f"user {os.getuid()}"
        assert status.reason == f"test by {user}, carried by {user}"
        with pytest.raises(
            grpc.aio.AioRpcError, match=r"the agent of worker:0: worker:7: the cluster has no such task"
        ):
            await command(cluster.seats["worker:2"], "Restart", "worker:7")
        with pytest.raises(grpc.aio.AioRpcError, match=r"the agent of worker:0: 'x' is no host of the cluster"):
            async with stub(cluster.seats["worker:1"]) as service:
                await service.Order(
                    agent_pb2.OrderRequest(to=named(cluster.seats["worker:1"]), name="uncordon", argument="x")
                )


async def test_a_console_leaves_out_the_dead_host_of_the_lead(cluster: Cluster) -> None:
    async with running(cluster, "worker:0"):
        channels = Channels(cluster.spec)
        stages = [each async for each in AgentCommands(channels).restart_without("worker:0")]
        await channels.close()
        assert stages[-1].stage is Stage.DONE
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        assert placement.seats == {**cluster.spec.agents, W0: cluster.spare}
        assert len({(await placed(cluster.now(placement, task))).generation for task in (W0, W1, W2)}) == 1


async def test_an_order_reaches_the_lowest_agent_that_answers(cluster: Cluster) -> None:
    async with running(cluster, "worker:0"):
        progress = await restart_without(cluster.seats["worker:2"], "worker:0")
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        assert "carried by" in progress[0].message
        assert progress[-1].message.startswith("placed; each task starts")


async def test_an_order_waits_for_the_leads_agent_that_is_started_again_and_is_carried_out_once(
    cluster: Cluster,
) -> None:
    lead = cluster.seats["worker:0"]
    async with AsyncExitStack() as stack:
        for name in ("worker:1", "worker:2", "spare"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        async with seat(lead) as lives:
            for task in (W0, W1, W2):
                await runs(cluster.seats[str(task)])
            lives[-1].hand_over()
        ordered = asyncio.create_task(command(cluster.seats["worker:2"], "Restart", "worker:1"))
        await asyncio.sleep(1.0)
        await stack.enter_async_context(seat(lead))
        progress = await ordered
        waited, begun, *_, last = progress
        assert waited.stage == agent_pb2.STAGE_WORKING and waited.message.startswith(
            "waits up to 20 s, since it is not"
        )
        assert begun.stage == agent_pb2.STAGE_PLANNED and last.stage == agent_pb2.STAGE_DONE, progress
        assert {(await runs(cluster.seats[str(task)])).generation for task in (W0, W1, W2)} == {2}


async def test_an_order_for_which_nobody_leads_is_refused_in_its_callers_time(cluster: Cluster) -> None:
    async with running(cluster, "worker:0"), stub(cluster.seats["worker:2"]) as service:
        request = agent_pb2.TasksRequest(tasks=["worker:1"], to=named(cluster.seats["worker:2"]))
        told = f"the agent of worker:0 at {cluster.spec.agents[W0]} does not answer: start it; waited [0-9] s for that"
        with pytest.raises(grpc.aio.AioRpcError, match=told) as refused:
            _ = [progress async for progress in service.Restart(request, timeout=10)]
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_stop_ends_what_answers_and_names_the_task_whose_agent_is_dead(cluster: Cluster) -> None:
    async with running(cluster, "worker:0"):
        channels = Channels(cluster.spec)
        *_, last = [each async for each in AgentCommands(channels).order("stop", [W1])]
        await channels.close()
        assert last.stage is Stage.FAILED and last.tasks == (W0,)
        told = f"whether worker:0 runs is not known: the agent of worker:0 at {cluster.spec.agents[W0]} does not answer"
        assert last.message == f"{told}: start it; the stop goes on by itself when it answers"
        for task in (W1, W2):
            assert (await status_when(cluster.seats[str(task)], lambda _: True)).state is TaskState.EXITED


@pytest.mark.parametrize("verb", ["Restart", "Stop"])
async def test_an_agent_without_a_majority_carries_out_nothing(cluster: Cluster, verb: str) -> None:
    async with running(cluster, "worker:0", "worker:2"):
        with pytest.raises(grpc.aio.AioRpcError, match="nothing was decided: 2 of 3 agents must agree"):
            await command(cluster.seats["worker:1"], verb, "worker:1")
        assert (await status_when(cluster.seats["worker:1"], lambda _: True)).state is TaskState.RUNNING


async def test_an_order_is_carried_once(cluster: Cluster) -> None:
    async with running(cluster):
        request = agent_pb2.TasksRequest(
            tasks=["worker:1"], to=named(cluster.seats["worker:2"]), carried_for="somebody"
        )
        with pytest.raises(grpc.aio.AioRpcError, match="worker:2 does not lead: ask the agent of worker:0 at"):
            async with stub(cluster.seats["worker:2"]) as service:
                _ = [progress async for progress in service.Restart(request)]


@pytest.mark.slow
@pytest.mark.usefixtures("source_roots")
async def test_an_order_whose_agent_falls_silent_ends_and_says_that_it_goes_on(
    make_cluster: Callable[[int], ClusterSpec], make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "_KEEPALIVE", (("grpc.keepalive_time_ms", 100),))
    settings = make_settings(make_cluster(1), W0)
    with agent_process(settings) as process:
        await runs(settings)
        channels = Channels(settings.cluster)
        match = r"the restart has begun, and goes on without this console: the agent of worker:0 .*: does not answer"
        with pytest.raises(CommandError, match=match):
            async with asyncio.timeout(60):
                async for _ in AgentCommands(channels).order("restart", [W0]):
                    process.send_signal(signal.SIGSTOP)
        await channels.close()
