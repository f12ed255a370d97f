"""Agents that are asked, before a move stops anything, whether they could start a task, and that try it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from life.placed_cluster import Cluster, placed, placement_at, restart_without, seat
from running_agents import W0, W1, W2, runs
from tfscale.agent.placement import mover
from tfscale.agent.placement.seat_peer import SeatPeer
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.records.task_status import Reason
from tfscale.v1 import agent_pb2

ALL = (W0, W1, W2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture
def cluster(make_settings: Callable[..., AgentSettings], small_disk: Path) -> Cluster:
    """Return a cluster whose spare keeps its state on a small disk."""
    cluster = Cluster(make_settings)
    cluster.seats["spare"] = replace(cluster.seats["spare"], state_dir=small_disk)
    return cluster


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass


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
