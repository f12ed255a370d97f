"""Agents that are asked, before a move stops anything, whether they could start a task, and that try it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from life.placed_cluster import Cluster, placed, placement_at, restart_without, seat
from running_agents import W0, W1, W2, agent, fill, runs, status_when
from tfscale.agent.consensus import voter_peer
from tfscale.agent.placement import mover
from tfscale.agent.placement.seat_peer import SeatPeer
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.records.task_status import Reason, TaskState
from tfscale.core.version import installed_version
from tfscale.v1 import agent_pb2

ALL = (W0, W1, W2)


@pytest.fixture
def cluster(make_settings: Callable[..., AgentSettings], small_disk: Path) -> Cluster:
    """Return a cluster whose spare keeps its state on a small disk."""
    cluster = Cluster(make_settings)
    cluster.seats["spare"] = replace(cluster.seats["spare"], state_dir=small_disk)
    return cluster


async def test_a_spare_whose_disk_is_full_is_given_no_task_until_it_has_room(
    cluster: Cluster, small_disk: Path
) -> None:
    lead = cluster.seats["worker:0"]
    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        before = [await runs(cluster.seats[str(task)]) for task in ALL]
        fill(small_disk)
        full = f"no further spare is free.*{cluster.spare} can take none: .* cannot be written: .*No space left"
        with pytest.raises(grpc.aio.AioRpcError, match=full):
            await restart_without(lead, "worker:1")
        assert [await runs(cluster.seats[str(task)]) for task in ALL] == before
        (small_disk / "filler").unlink()
        assert (await restart_without(lead, "worker:1"))[-1].stage == agent_pb2.STAGE_DONE
        placement = await placement_at(lead, lambda each: each.generation)
        for task in ALL:
            await placed(cluster.now(placement, task))


async def test_a_spare_whose_disk_fills_up_in_the_midst_of_a_move_is_gone_on_without(
    cluster: Cluster, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead, place = cluster.seats["worker:0"], SeatPeer.place
    monkeypatch.setattr(mover, "_LOOK", 0.3)

    async def place_on_full(peer: SeatPeer, placement: Placement, reason: Reason) -> str:
        fill(small_disk)
        return await place(peer, placement, reason)

    async with AsyncExitStack() as stack:
        for settings in cluster.seats.values():
            await stack.enter_async_context(seat(settings))
        for task in ALL:
            await runs(cluster.seats[str(task)])
        monkeypatch.setattr(SeatPeer, "place", place_on_full)
        await restart_without(lead, "worker:1")
        half = await placement_at(lead, lambda each: each.seats[W1] == cluster.spare)
        mended = await placement_at(lead, lambda each: each.generation > half.generation)
        assert mended.seats == cluster.spec.agents
        for task in ALL:
            await placed(cluster.now(mended, task))


def without_spares(spec: ClusterSpec) -> ClusterSpec:
    return replace(spec, spares={})


def with_one_more_spare(spec: ClusterSpec) -> ClusterSpec:
    return replace(spec, spares={**spec.spares, Address("127.0.0.9", 1): Address("127.0.0.9", 2)})


def with_other_fewest(spec: ClusterSpec) -> ClusterSpec:
    assert spec.recovery is not None
    return replace(spec, recovery=replace(spec.recovery, min_workers=2))


def without_recovery(spec: ClusterSpec) -> ClusterSpec:
    return replace(spec, recovery=None)


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (with_one_more_spare, r"\[spares\]"),
        (with_other_fewest, r"min_workers in \[recovery\]"),
        (without_recovery, r"\[recovery\]"),
    ],
)
async def test_an_agent_with_another_cluster_file_has_a_move_refused_before_anything_is_stopped(
    make_settings: Callable[..., AgentSettings], other: Callable[[ClusterSpec], ClusterSpec], part: str
) -> None:
    cluster = Cluster(make_settings)
    lead, third = cluster.seats["worker:0"], cluster.seats["worker:2"]
    spec = other(cluster.spec)
    third = replace(third, cluster=spec)
    async with AsyncExitStack() as stack:
        for name in ("worker:0", "worker:1", "spare"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        await stack.enter_async_context(seat(third))
        before = [await runs(cluster.seats[str(task)]) for task in ALL]
        refused = (
            f"nothing was stopped: the cluster file of the agent at {lead.cluster.agents[W2]} has another {part}: give"
        )
        with pytest.raises(grpc.aio.AioRpcError, match=refused):
            await restart_without(lead, "worker:1")
        assert [await runs(cluster.seats[str(task)]) for task in ALL] == before


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (installed_version(), ": give it the same cluster file, whose [spares] or min_workers let tasks move"),
        ("9.9", f", because it is of version {installed_version()}, and this one of 9.9: upgrade it"),
    ],
    ids=["another file", "an older version"],
)
async def test_an_agent_that_does_not_vote_is_named_with_the_reason_and_nothing_starts_before_it_votes(
    make_settings: Callable[..., AgentSettings],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    why: str,
) -> None:
    monkeypatch.setattr(voter_peer, "installed_version", lambda: own)
    cluster = Cluster(make_settings)
    third = replace(cluster.seats["worker:2"], cluster=without_spares(cluster.spec), seat=None)
    words = f"{cluster.spec.agents[W2]}: does not vote{why}"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent(third))
        for name in ("worker:0", "worker:1", "spare"):
            await stack.enter_async_context(seat(cluster.seats[name]))
        async with asyncio.timeout(60):
            while words not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        state = await status_when(cluster.seats["worker:0"], lambda _: True)
        assert state.state is TaskState.PENDING
