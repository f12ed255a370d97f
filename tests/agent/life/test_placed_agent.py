"""Agents whose tasks are placed on others. All are real, with real tasks, in one process."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import grpc
import psutil
import pytest
from life.placed_cluster import Cluster, MakeSettings, placed, placement_at, restart_without, seat
from running_agents import W0, W1, W2, kill, named, runs, status_when, stub
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.life.spare_daemon import SpareDaemon
from tfscale.agent.placement import mover
from tfscale.agent.placement.seat_peer import SeatPeer
from tfscale.agent.recovery import acting_lead, failure_reporter, host_replacement
from tfscale.agent.settings import AgentSettings
from tfscale.console.engine.events import FrameArrived, LinkChanged, LinkState
from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.access.orders import ORDERS
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.recovery_policy import OnStraggler
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Stage, TaskState, TaskStatus
from tfscale.v1 import agent_pb2, agent_pb2_grpc, placement_pb2, placement_pb2_grpc


@pytest.fixture
def cluster(make_settings: MakeSettings) -> Cluster:
    return Cluster(make_settings)


def anywhere(settings: AgentSettings) -> agent_pb2.TaskIdentity:
    """Return whom a request names that is for a seat, whatever it holds."""
    return agent_pb2.TaskIdentity(run=settings.run, fingerprint=settings.identity.fingerprint)


async def told(settings: AgentSettings, workers: list[str]) -> None:
    """Wait until the task that runs has said that its TF_CONFIG has these workers."""
    async with asyncio.timeout(60):
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
        assert "worker:1 to 127.0.0.5" in progress[0].message
        placement = await placement_at(cluster.seats["worker:0"], lambda each: each.generation)
        assert placement.seats == {**cluster.spec.agents, W1: cluster.spare}
        workers = [str(cluster.spec.tasks[W0]), str(cluster.spec.spares[cluster.spare]), str(cluster.spec.tasks[W2])]
        statuses = [await placed(cluster.now(placement, task)) for task in (W0, W1, W2)]
        assert len({status.generation for status in statuses}) == 1
        assert f"test by user {os.getuid()}, without worker:1: worker:1 to" in statuses[0].reason
        for task in (W0, W1, W2):
            await told(cluster.now(placement, task), workers)
        assert isinstance(lives["worker:1"][-1], SpareDaemon)
        assert [type(life).__name__ for life in lives["spare"]] == ["SpareDaemon", "Daemon"]


async def held() -> list[int]:
    """Return how many threads and open files this process has, without those of what is under way."""
    process, found = psutil.Process(), []
    for _ in range(20):
        found.append((process.num_threads(), process.num_fds()))
        await asyncio.sleep(0.1)
    return [min(each) for each in zip(*found, strict=True)]


@pytest.fixture
def _no_collections() -> Iterator[None]:
    """Collect no garbage in the test: what an agent holds is closed by the agent."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("_no_collections")
async def test_ten_moves_leave_no_thread_and_no_open_file(cluster: Cluster) -> None:
    sizes = []
    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings, kept=1))
        homes, lead = (cluster.spec.agents[W1], cluster.spare), cluster.seats["worker:0"]
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        for number in range(10):
            left, taken = homes[number % 2], homes[(number + 1) % 2]
            progress = await restart_without(lead, str(left))
            assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
            placement = await placement_at(lead, lambda each, at=taken: each.seats[W1] == at)  # type: ignore[misc]
            for task in (W0, W1, W2):
                await placed(cluster.now(placement, task))
            if number in (1, 9):
                sizes.append(await held())
    # Not the same each time: a connection that was given up is closed later.
    assert all(now - then <= 6 for then, now in zip(*sizes, strict=True)), sizes


async def test_watchers_are_told_that_tasks_are_placed_anew(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        async with stub(cluster.seats["worker:2"]) as service, asyncio.timeout(60):
            watch = service.Watch(agent_pb2.WatchRequest(schema_version=1))
            await watch.read()
            await restart_without(cluster.seats["worker:0"], "worker:1")
            replies = [reply async for reply in watch]
    assert replies[-1].farewell.moves and not replies[-1].farewell.task_goes_on


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
        with pytest.raises(grpc.aio.AioRpcError, match="no place for worker:1: no further spare is free") as refused:
            await restart_without(cluster.seats["worker:0"], "worker:1")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        after = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)]
        assert [each.pid for each in after] == [each.pid for each in before]


@pytest.mark.parametrize("is_there", [True, False], ids=["a spare", "none"])
async def test_a_slow_worker_is_moved_to_a_spare_and_never_makes_the_gang_smaller(
    make_settings: MakeSettings, is_there: bool
) -> None:
    cluster = Cluster(make_settings, on_straggler=OnStraggler.REPLACE, min_workers=2)
    lead = cluster.seats["worker:0"]
    by_policy = agent_pb2.ByPolicy(on_straggler="replace")
    request = agent_pb2.TasksRequest(tasks=["worker:1"], reason="slow", by_policy=by_policy, to=named(lead))
    async with AsyncExitStack() as stack:
        for name, settings in cluster.seats.items():
            if is_there or name != "spare":
                await stack.enter_async_context(seat(settings))
        before = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)]
        async with stub(lead) as service, asyncio.timeout(60):
            if not is_there:
                with pytest.raises(grpc.aio.AioRpcError, match="no other agent is free to take worker:1"):
                    _ = [progress async for progress in service.Restart(request)]
                assert [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)] == before
                return
            progress = [progress async for progress in service.Restart(request)]
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        assert progress[0].message == ("slow, restart 1 of 10 within 1 h, without worker:1: worker:1 to 127.0.0.5")
        placement = await placement_at(lead, lambda each: each.generation)
        assert placement.seats == {**cluster.spec.agents, W1: cluster.spare}
        statuses = [await placed(cluster.now(placement, task)) for task in (W0, W1, W2)]
        assert {status.restarted_for for status in statuses} == {"worker:1"}
        for holder in (lead, cluster.now(placement, W1)):  # one that had no journal of this task, too
            counts = Journal(holder.files.journal).entry.counts
            assert (counts.slow, [budget.name for budget in counts.budgets]) == (("worker:1",), ["worker:0"])


async def test_what_ended_for_a_move_is_no_failure_of_the_process(cluster: Cluster) -> None:
    processes = {name: OwnProcess() for name in cluster.seats}
    async with AsyncExitStack() as stack:
        for name, settings in cluster.seats.items():
            await stack.enter_async_context(seat(replace(settings, exit_with_task=True), processes[name]))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        progress = await restart_without(cluster.seats["worker:0"], "127.0.0.3")
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        assert {name: process.exit_status for name, process in processes.items()} == dict.fromkeys(processes, 0)


async def test_a_spare_whose_port_is_taken_is_given_no_task_and_named(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        before = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)]
        port = cluster.spec.spares[cluster.spare].port
        stack.enter_context(socket.create_server(("127.0.0.1", port)))
        taken = f"{cluster.spare} can take none: port {port} is taken by process {os.getpid()}"
        with pytest.raises(grpc.aio.AioRpcError, match=f"no further spare is free.*{taken}"):
            await restart_without(cluster.seats["worker:0"], "worker:1")
        after = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)]
        assert [each.pid for each in after] == [each.pid for each in before]


async def test_nobody_places_tasks_without_the_token_and_a_stranger_is_refused(cluster: Cluster) -> None:
    settings = cluster.seats["spare"]
    place = placement_pb2.PlaceRequest(to=anywhere(settings), seat=str(settings.seat))
    stranger = placement_pb2.SeatRequest(to=anywhere(settings), seat="127.0.0.1:1")
    other = placement_pb2.SeatRequest(to=agent_pb2.TaskIdentity(run="other"), seat=str(settings.seat))
    async with seat(settings), grpc.aio.insecure_channel(str(settings.listen)) as channel:
        service = placement_pb2_grpc.PlacementStub(channel)
        await placement_at(settings, lambda _: True)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await service.Place(place)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        for request, words in ((stranger, "the request is for 127.0.0.1:1"), (other, "of run other")):
            with pytest.raises(grpc.aio.AioRpcError, match=words) as refused:
                await service.Seat(request)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_agent_that_comes_back_waits_as_a_spare(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        for name in ("worker:0", "worker:2", "spare"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        async with seat(cluster.seats["worker:1"]):  # all vote once, before two of three may decide
            for task in (W0, W1, W2):
                await runs(cluster.seats[str(task)])
        assert (await restart_without(cluster.seats["worker:0"], "worker:1"))[-1].stage == agent_pb2.STAGE_DONE
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        await placed(cluster.now(placement, W1))
        lives = await stack.enter_async_context(seat(cluster.seats["worker:1"]))
        assert await placement_at(cluster.seats["worker:1"], lambda each: each.generation) == placement
        assert isinstance(lives[-1], SpareDaemon)


async def test_an_agent_that_starts_alone_waits_for_a_majority(cluster: Cluster) -> None:
    own = cluster.seats["worker:1"]
    async with AsyncExitStack() as stack:
        others = AsyncExitStack()
        for name in ("worker:0", "worker:2", "spare"):
            await others.enter_async_context(seat(cluster.seats[name]))
        async with seat(own):
            for task in (W0, W1, W2):
                await runs(cluster.seats[str(task)])
        assert (await restart_without(cluster.seats["worker:0"], "worker:1"))[-1].stage == agent_pb2.STAGE_DONE
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        await placed(cluster.now(placement, W1))
        await others.aclose()
        lives = await stack.enter_async_context(seat(own))
        await asyncio.sleep(3)
        assert isinstance(lives[-1], Daemon) and lives[-1]._parts.supervisor.pid is None
        waiting = await status_when(own, lambda _: True)
        assert waiting.state is TaskState.PENDING and "2 of 3 agents must agree" in waiting.reason
        await stack.enter_async_context(seat(cluster.seats["worker:2"]))
        assert await placement_at(own, lambda each: each.generation) == placement
        async with asyncio.timeout(60):
            while not isinstance(lives[-1], SpareDaemon):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_lead, "SETTLE", 0.2)
    monkeypatch.setattr(host_replacement, "_AGAIN", 0.5)
    monkeypatch.setattr(mover, "_LOOK", 0.3)
    monkeypatch.setattr(failure_reporter, "_LEAD_PATIENCE", 0.5)


async def restarted_without(dead: Task, cluster: Cluster, stack: AsyncExitStack) -> list[TaskStatus]:
    """End the agent of one task, then kill worker:2; return the statuses once the spare has the dead agent's task."""
    gone = AsyncExitStack()
    for name, settings in cluster.seats.items():
        await (gone if name == str(dead) else stack).enter_async_context(seat(settings))
    before = {task: await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)}
    await gone.aclose()
    kill(before[W2])
    placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
    assert placement.seats == {**cluster.spec.agents, dead: cluster.spare}
    return [await placed(cluster.now(placement, task)) for task in (W0, W1, W2)]


@pytest.mark.usefixtures("_quick")
async def test_a_dead_host_is_left_out_by_the_agents_alone(make_settings: MakeSettings) -> None:
    cluster = Cluster(make_settings, replace_after=0.5)
    async with AsyncExitStack() as stack:
        statuses = await restarted_without(W1, cluster, stack)
        assert "restarted by itself after worker:2 was killed" in statuses[0].reason
        assert "worker:1 to 127.0.0.5" in statuses[0].reason


@pytest.mark.usefixtures("_quick")
async def test_the_host_of_the_lead_may_be_the_one_that_dies(make_settings: MakeSettings) -> None:
    cluster = Cluster(make_settings, replace_after=0.5)
    async with AsyncExitStack() as stack:
        statuses = await restarted_without(W0, cluster, stack)
        assert len({status.generation for status in statuses}) == 1


@pytest.mark.usefixtures("_quick")
async def test_a_host_that_failed_again_and_again_is_cordoned_until_somebody_uncordons_it(
    make_settings: MakeSettings,
) -> None:
    cluster = Cluster(make_settings, cordon_after=2)
    host, first_lead = cluster.spec.agents[W1].host, cluster.spec.agents[W0]
    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        before = {task: await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)}
        kill(before[W1])
        again = {task: await status_when(cluster.seats[str(task)], lambda status: status.generation == 2 and status.pid)
                 for task in (W0, W1, W2)}  # fmt: skip
        assert "restart 1 of 10" in again[W0].reason
        # Another agent leads, which has not counted that failure.
        await restart_without(cluster.seats["worker:0"], "worker:0")
        placement = await placement_at(cluster.seats["spare"], lambda each: each.generation)
        kill([await placed(cluster.now(placement, task)) for task in (W0, W2, W1)][-1])
        placement = await placement_at(cluster.seats["spare"], lambda each: each.cordoned)
        assert placement.seats == {**cluster.spec.agents, W0: cluster.spare, W1: first_lead}
        assert placement.cordoned == {host: "failed 2 times within 1 h"}
        for task in (W0, W1, W2):
            await placed(cluster.now(placement, task))
        lead = cluster.now(placement, W0)
        async with open_channel(lead.listen, cluster.spec) as channel:
            service, request = agent_pb2_grpc.AgentStub(channel), agent_pb2.OrderRequest(to=named(lead), argument=host)
            request.name = "uncordon"
            restart = service.Restart(agent_pb2.TasksRequest(tasks=["worker:0"], to=named(lead)), wait_for_ready=True)
            await restart.read()
            assert await service.Order(request).code() is grpc.StatusCode.ABORTED  # as of any second command
            while await restart.read() is not grpc.aio.EOF:
                pass
            assert (await service.Order(request, timeout=10)).done == (
                f"{host} is uncordoned: tasks may be placed there again"
            )
        after = await placement_at(cluster.seats["worker:2"], lambda each: not each.cordoned)
        # A new generation would have each agent that is started again start a task that has finished.
        assert after == replace(placement, cordoned={}, revision=1)


@pytest.mark.usefixtures("_quick")
async def test_an_uncordoned_host_ends_no_task_whose_agent_is_gone(make_settings: MakeSettings) -> None:
    cluster = Cluster(make_settings, spares=2, cordon_after=1)
    host, lead = cluster.spec.agents[W1].host, cluster.seats["worker:0"]
    async with AsyncExitStack() as stack:
        gone = AsyncExitStack()
        for name, settings in cluster.seats.items():
            await (gone if name == "worker:2" else stack).enter_async_context(seat(settings))
        kill({task: await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)}[W1])
        placement = await placement_at(lead, lambda each: host in each.cordoned)
        for task in (W0, W1, W2):
            await placed(cluster.now(placement, task))
        await gone.aclose()
        async with open_channel(lead.listen, cluster.spec) as channel:
            request = agent_pb2.OrderRequest(to=named(lead), name="uncordon", argument=host)
            await agent_pb2_grpc.AgentStub(channel).Order(request, wait_for_ready=True, timeout=10)
        await asyncio.sleep(2)
        assert await placement_at(lead, lambda _: True) == replace(placement, cordoned={}, revision=1)


@pytest.mark.usefixtures("_quick")
async def test_a_gang_goes_on_with_fewer_workers_and_grows_back(make_settings: MakeSettings) -> None:
    cluster = Cluster(make_settings, spares=0, replace_after=0.5, min_workers=2)
    async with AsyncExitStack() as stack:
        gone = AsyncExitStack()
        for name, settings in cluster.seats.items():
            await (gone if name == "worker:1" else stack).enter_async_context(seat(settings))
        before = {task: await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)}
        await gone.aclose()
        kill(before[W2])
        small = await placement_at(cluster.seats["worker:0"], lambda each: each.generation)
        assert small.seats == {W0: cluster.spec.agents[W0], W1: cluster.spec.agents[W2]}
        for task in (W0, W1):
            await placed(cluster.now(small, task))
        await stack.enter_async_context(seat(cluster.seats["worker:1"]))
        large = await placement_at(cluster.seats["worker:0"], lambda each: len(each.seats) == 3)
        assert large.seats == {**small.seats, W2: cluster.spec.agents[W1]}
        statuses = [await placed(cluster.now(large, task)) for task in (W0, W1, W2)]
        assert "with more workers" in statuses[0].reason


@pytest.mark.usefixtures("_quick")
async def test_a_host_that_dies_again_and_again_is_cordoned_and_spends_no_restart_of_the_others(
    make_settings: MakeSettings,
) -> None:
    cluster = Cluster(make_settings, spares=0, replace_after=0.5, min_workers=2, cordon_after=2, max_restarts=1)
    lead, flapping = cluster.seats["worker:0"], cluster.seats["worker:1"]
    assert flapping.seat is not None
    async with AsyncExitStack() as stack:
        for name in ("worker:0", "worker:2"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        placement = Placement(0, cluster.spec.agents)
        for _ in range(2):
            async with seat(flapping):
                placement = await placement_at(lead, lambda each: len(each.seats) == 3)
                before = {task: await placed(cluster.now(placement, task)) for task in (W0, W1, W2)}
            survivor = next(task for task in (W1, W2) if placement.seats[task] != flapping.seat)
            kill(before[survivor])
            placement = await placement_at(lead, lambda each: len(each.seats) == 2)
            for task in (W0, W1):
                await placed(cluster.now(placement, task))
        assert placement.cordoned == {flapping.seat.host: "failed 2 times within 1 h"}
        async with seat(flapping):
            await asyncio.sleep(3.0)
            assert await placement_at(lead, lambda _: True) == placement


@pytest.mark.usefixtures("_quick")
async def test_a_move_onto_an_agent_that_ends_meanwhile_is_followed_by_one_without_it(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, place = Cluster(make_settings), SeatPeer.place
    lead = cluster.seats["worker:0"]
    async with AsyncExitStack() as stack:
        gone = AsyncExitStack()
        for name, settings in cluster.seats.items():
            await (gone if name == "spare" else stack).enter_async_context(seat(settings))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])

        async def place_too_late(peer: SeatPeer, placement: Placement, reason: str) -> str:
            if peer._seat == cluster.spare:
                await gone.aclose()
            return await place(peer, placement, reason)

        monkeypatch.setattr(SeatPeer, "place", place_too_late)
        await restart_without(lead, "worker:1")
        half = await placement_at(lead, lambda each: each.seats[W1] == cluster.spare)
        mended = await placement_at(lead, lambda each: each.generation > half.generation)
        assert mended.seats == cluster.spec.agents
        statuses = [await placed(cluster.now(mended, task)) for task in (W0, W1, W2)]
        assert f"restarted by itself without {cluster.spare}" in statuses[0].reason


async def first_links(cluster: Cluster, task: Task) -> list[LinkState]:
    """Return the states of a task's link in a console that starts now, until the link is up."""
    channels, inbox, found = Channels(cluster.spec), Inbox(), list[LinkState]()
    source = asyncio.create_task(LiveSource(channels).run(inbox))
    async with asyncio.timeout(60):
        while LinkState.UP not in found:
            await inbox.wait()
            taken = inbox.take(100)
            found += [event.state for event in taken if isinstance(event, LinkChanged) and event.task == task]
    source.cancel()
    await asyncio.gather(source, return_exceptions=True)
    await channels.close()
    return found


async def test_a_console_commands_the_move_and_follows_the_tasks(cluster: Cluster) -> None:
    channels, inbox = Channels(cluster.spec), Inbox()
    newest: dict[Task, FrameArrived] = {}

    async def take() -> None:
        while True:
            await inbox.wait()
            newest.update({event.task: event for event in inbox.take(100) if isinstance(event, FrameArrived)})

    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        for task in (W0, W1, W2):
            await runs(cluster.seats[str(task)])
        jobs = [asyncio.create_task(job) for job in (LiveSource(channels).run(inbox), take())]
        commands = AgentCommands(channels)
        stages = [each async for each in commands.restart_without(cluster.spec.agents[W0].host)]
        assert stages[-1].stage is Stage.DONE and stages[-1].message.startswith("placed")
        async with asyncio.timeout(60):
            while not all(  # noqa: ASYNC110 - it is three tasks that are waited for
                task in newest
                and newest[task].frame.status.generation == stages[-1].generation
                and newest[task].frame.status.state is TaskState.RUNNING
                for task in (W0, W1, W2)
            ):
                await asyncio.sleep(0.1)
        assert channels.address(W0) == cluster.spare
        # W0's own agent is a spare now, which has no stream: nothing is wrong with it.
        late = await first_links(cluster, W0)
        assert late == [LinkState.CONNECTING, LinkState.UP]
        fresh = Channels(cluster.spec)
        await fresh.locate()
        assert fresh.placement == channels.placement
        with pytest.raises(CommandError, match=r"'127\.0\.0\.2' is not cordoned"):
            await AgentCommands(fresh).carry_out(ORDERS["uncordon"], None, "127.0.0.2")
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await channels.close()
        await fresh.close()


async def test_a_task_that_outlived_its_agent_is_ended_where_it_sits_elsewhere_now(cluster: Cluster) -> None:
    own = cluster.seats["worker:1"]
    async with AsyncExitStack() as stack:
        for name in ("worker:0", "worker:2", "spare"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        async with seat(own) as lives:
            before = [await runs(cluster.seats[str(task)]) for task in (W0, W1, W2)][1]
            (daemon,) = lives
            assert isinstance(daemon, Daemon)
            daemon.hand_over()
        assert before.pid is not None
        os.kill(before.pid, 0)
        await restart_without(cluster.seats["worker:0"], "worker:1")
        os.kill(before.pid, 0)  # without its agent nobody ends it
        await stack.enter_async_context(seat(own))
        await placement_at(own, lambda each: each.generation)
        with pytest.raises(ProcessLookupError):
            os.kill(before.pid, 0)
