"""gRPC service for the placement of tasks on agents. It only translates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc.aio
from tfscale.agent import wire
from tfscale.agent.placement.seat import Seat
from tfscale.agent.serving.status_codes import Stranger
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.placement.placement import parse_placement
from tfscale.core.text import bounded
from tfscale.v1 import placement_pb2, placement_pb2_grpc

PLACEMENT_NAME = placement_pb2.DESCRIPTOR.services_by_name["Placement"].full_name
_Context = grpc.aio.ServicerContext


def serve_placements(server: grpc.aio.Server, service: PlacementService) -> None:
    """Have the server answer the calls of this service."""
    placement_pb2_grpc.add_PlacementServicer_to_server(service, server)


class PlacementService(placement_pb2_grpc.PlacementServicer):
    """Service of one seat. `uncordon` is None on all agents but the lead's."""

    def __init__(self, spec: ClusterSpec, seat: Seat, uncordon: Callable[[str], Awaitable[None]] | None = None) -> None:
        self._spec, self._seat, self._uncordon = spec, seat, uncordon

    async def Seat(
        self,
        request: placement_pb2.SeatRequest,
        context: _Context[placement_pb2.SeatRequest, placement_pb2.SeatReply],
    ) -> placement_pb2.SeatReply:
        self._check_seat(request.seat)
        return wire.seat_message(await self._seat.report(tries=request.tries))

    async def Place(
        self,
        request: placement_pb2.PlaceRequest,
        context: _Context[placement_pb2.PlaceRequest, placement_pb2.SeatReply],
    ) -> placement_pb2.SeatReply:
        self._check_seat(request.seat)
        placement = parse_placement(request.placement, self._spec)
        await self._seat.accept(placement, wire.reason_record(request))
        return wire.seat_message(await self._seat.report())

    def _check_seat(self, asked: str) -> None:
        """Raise Stranger for a request that is meant for another seat."""
        if asked != str(self._seat.address):
            raise Stranger(
                f"this is the agent of {self._seat.address}, and the request is for {bounded(asked, 60)}: correct "
                "[agents] or [spares] in the cluster file"
            )
