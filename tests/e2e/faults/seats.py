"""Seats of a trial whose tasks may move: agents on loopback hosts of their own, and who holds which task now."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
from local_cluster import write_cluster
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.placement.placement import Placement, file_placement, parse_placement, placed_spec, seats_of
from tfscale.core.cluster.security import open_channel
from tfscale.v1 import placement_pb2, placement_pb2_grpc

from faults import orders

SPARE = "spare"
"""Name of the spare's agent among those of the tasks."""
_PATIENCE = 5.0


def write_hosts(folder: Path, workers: int, spares: int) -> Path:
    """Write a cluster file in which each agent has a host of its own, 127.0.0.2 and on, the spares last."""
    path = write_cluster(folder, workers + spares)
    spec = load_cluster(path)
    hosts = [f"127.0.0.{number}" for number in range(2, 2 + workers + spares)]
    places = [f'"{host}:{task.port}"' for host, task in zip(hosts, spec.tasks.values(), strict=True)]
    agents = [f'"{host}:{agent.port}"' for host, agent in zip(hosts, spec.agents.values(), strict=True)]
    lines = ["[cluster]", f"worker = [{', '.join(places[:workers])}]", "[agents]"]
    lines += [f'"worker:{index}" = {agent}' for index, agent in enumerate(agents[:workers])]
    if spares:
        lines += ["[spares]", f"agents = [{', '.join(agents[workers:])}]", f"tasks = [{', '.join(places[workers:])}]"]
    path.write_text("\n".join(lines))
    return path


def placement(spec: ClusterSpec) -> Placement:
    """Return the newest placement that any agent knows."""

    async def ask() -> list[Placement]:
        return await asyncio.gather(*(_placement(spec, seat) for seat in seats_of(spec)))

    return max(orders.run(ask()), key=lambda known: known.generation)


def placed(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec with all tasks where they sit now."""
    return placed_spec(spec, placement(spec))


async def _placement(spec: ClusterSpec, seat: Address) -> Placement:
    request = placement_pb2.SeatRequest(to=orders.any_task(spec), seat=str(seat))
    try:
        async with open_channel(seat, spec) as channel:
            reply = await placement_pb2_grpc.PlacementStub(channel).Seat(request, timeout=_PATIENCE)
    except grpc.aio.AioRpcError:
        return file_placement(spec)
    return parse_placement(reply.placement, spec)
