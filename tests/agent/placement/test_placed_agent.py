"""Agents whose tasks are placed on others. All are real, with real tasks, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import grpc
import pytest
from loopback import free_addresses
from running_agents import W0, W1, W2, named, runs, stub
from tfscale.agent.placement import placed_agent
from tfscale.agent.placement.placed_agent import Life, seat_peers
from tfscale.agent.placement.spare_daemon import SpareDaemon
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.core.cluster.placement.placement import Placement, parse_placement, placed_spec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records import TaskStatus
from tfscale.v1 import agent_pb2, placement_pb2, placement_pb2_grpc

MakeCluster = Callable[[int], ClusterSpec]
MakeSettings = Callable[..., AgentSettings]
TELLS = (sys.executable, "-c", "import os, time; print(os.environ['TF_CONFIG'], flush=True); time.sleep(60)")


@asynccontextmanager
async def seat(settings: AgentSettings) -> AsyncIterator[list[Life]]:
    """Run the agent of a seat until the context ends; yield its daemons so far."""
    lives: list[Life] = []
    running = asyncio.create_task(placed_agent.run(settings, lives.append))
    try:
        yield lives
    finally:
        if lives:
            lives[-1].leave()
        async with asyncio.timeout(10):
            await running


class Cluster:
    """Three workers and a spare, each with the settings of its agent."""

    def __init__(self, spec: ClusterSpec, make_settings: MakeSettings) -> None:
        (self.spare,) = spec.spares
        self.spec = spec
        self.seats = {
            str(task): make_settings(spec, task, seat=spec.agents[task], command=TELLS) for task in spec.tasks
        }
        self.seats["spare"] = make_settings(spec, spec.lead, seat=self.spare, listen=self.spare, command=TELLS)

    def now(self, placement: Placement, task: Task) -> AgentSettings:
        """Return the settings of the agent that holds a task."""
        home = next(each for each in self.seats.values() if each.seat == placement.seats[task])
        return replace(home, cluster=placed_spec(self.spec, placement), task=task)


@pytest.fixture
def cluster(make_cluster: MakeCluster, make_settings: MakeSettings) -> Cluster:
    agent, place = map(parse_address, free_addresses(2))
    recovery = RecoveryPolicy(dict.fromkeys(Role, RestartPolicy.ON_FAILURE), backoff=0.1, most_backoff=0.2)
    spec = replace(make_cluster(3), spares={agent: place}, recovery=recovery)
    return Cluster(spec, make_settings)


async def restart_without(settings: AgentSettings, name: str) -> list[agent_pb2.Progress]:
    request = agent_pb2.TasksRequest(without=[name], reason="test", to=named(settings))
    async with stub(settings) as service, asyncio.timeout(20):
        return [progress async for progress in service.Restart(request, wait_for_ready=True)]


def anywhere(settings: AgentSettings) -> agent_pb2.TaskIdentity:
    """Return whom a request names that is for a seat, whatever it holds."""
    return agent_pb2.TaskIdentity(run=settings.run, fingerprint=settings.identity.fingerprint)


async def placement_at(settings: AgentSettings, reached: Callable[[Placement], object]) -> Placement:
    """Return the placement that an agent knows, once `reached` holds for it."""
    assert settings.seat is not None
    peer = seat_peers(settings, parse_address("127.0.0.1:1"))[settings.seat]
    async with asyncio.timeout(30):
        while True:
            report = await peer.ask()
            if report is not None and reached(found := parse_placement(report.placement, settings.cluster)):
                return found
            await asyncio.sleep(0.05)


async def placed(settings: AgentSettings) -> TaskStatus:
    """Return the status of a task once it runs where it was placed; the daemon before may answer for a moment."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(AssertionError, grpc.aio.AioRpcError):
                status = await runs(settings)
                if status.generation >= settings.cluster.placed_in:
                    return status
            await asyncio.sleep(0.05)


async def told(settings: AgentSettings, workers: list[str]) -> None:
    """Wait until the task that runs has said that its TF_CONFIG has these workers."""
    async with asyncio.timeout(10):
        while True:
            lines = [line for line in settings.files.log.read_text().splitlines() if line.startswith("{")]
            if lines and json.loads(lines[-1])["cluster"]["worker"] == workers:
                return
            await asyncio.sleep(0.05)


async def test_a_restart_without_a_host_starts_its_task_on_the_spare(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        lives = {name: await stack.enter_async_context(seat(settings)) for name, settings in cluster.seats.items()}
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        progress = await restart_without(cluster.seats["worker:0"], "worker:1")
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        assert "worker:1 to 127.0.0.1" in progress[0].message
        placement = await placement_at(cluster.seats["worker:0"], lambda each: each.generation)
        assert placement.seats == {**cluster.spec.agents, W1: cluster.spare}
        workers = [str(cluster.spec.tasks[W0]), str(cluster.spec.spares[cluster.spare]), str(cluster.spec.tasks[W2])]
        statuses = [await placed(cluster.now(placement, task)) for task in (W0, W1, W2)]
        assert len({status.generation for status in statuses}) == 1
        assert "test, without worker:1: worker:1 to" in statuses[0].reason
        for task in (W0, W1, W2):
            await told(cluster.now(placement, task), workers)
        assert isinstance(lives["worker:1"][-1], SpareDaemon)
        assert [type(life).__name__ for life in lives["spare"]] == ["SpareDaemon", "Daemon"]


async def test_the_lead_itself_may_be_left_out(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        progress = await restart_without(cluster.seats["worker:0"], str(cluster.seats["worker:0"].seat))
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        assert placement.seats[W0] == cluster.spare
        statuses = [await placed(cluster.now(placement, task)) for task in (W0, W1, W2)]
        assert len({status.generation for status in statuses}) == 1


async def test_a_restart_for_which_there_is_no_place_costs_nothing(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        for name in ("worker:0", "worker:1", "worker:2"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        before = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)]
        with pytest.raises(grpc.aio.AioRpcError, match="no place for worker:1: no spare is free") as refused:
            await restart_without(cluster.seats["worker:0"], "worker:1")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        after = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)]
        assert [each.pid for each in after] == [each.pid for each in before]


async def test_nobody_places_tasks_without_the_token_and_a_stranger_is_refused(cluster: Cluster) -> None:
    settings = cluster.seats["spare"]
    place = placement_pb2.PlaceRequest(to=anywhere(settings), seat=str(settings.seat))
    uncordon = placement_pb2.UncordonRequest(to=anywhere(settings), host="127.0.0.1")
    stranger = placement_pb2.SeatRequest(to=anywhere(settings), seat="127.0.0.1:1")
    other = placement_pb2.SeatRequest(to=agent_pb2.TaskIdentity(run="other"), seat=str(settings.seat))
    async with seat(settings), grpc.aio.insecure_channel(str(settings.listen)) as channel:
        service = placement_pb2_grpc.PlacementStub(channel)
        await placement_at(settings, lambda _: True)
        for call, request in ((service.Place, place), (service.Uncordon, uncordon)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(request)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        for request, words in ((stranger, "the request is for 127.0.0.1:1"), (other, "of run other")):
            with pytest.raises(grpc.aio.AioRpcError, match=words) as refused:
                await service.Seat(request)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_agent_that_comes_back_waits_as_a_spare(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        for name in ("worker:0", "worker:2", "spare"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        for task in (W0, W2):
            await runs(cluster.seats[str(task)])
        assert (await restart_without(cluster.seats["worker:0"], "worker:1"))[-1].stage == agent_pb2.STAGE_DONE
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        await placed(cluster.now(placement, W1))
        lives = await stack.enter_async_context(seat(cluster.seats["worker:1"]))
        assert await placement_at(cluster.seats["worker:1"], lambda each: each.generation) == placement
        assert isinstance(lives[-1], SpareDaemon)
