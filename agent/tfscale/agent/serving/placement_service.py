"""gRPC service by which agents learn which of them holds which task. It only translates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.agent.cluster.gang import GangError
from tfscale.agent.placement.seat import Seat
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.placement.placement import parse_placement
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.text import bounded
from tfscale.v1 import agent_pb2, placement_pb2, placement_pb2_grpc

PLACEMENT_NAME = placement_pb2.DESCRIPTOR.services_by_name["Placement"].full_name
_MOST_REASON = 200
_Context = grpc.aio.ServicerContext


def serve_placements(server: grpc.aio.Server, service: PlacementService) -> None:
    """Have the server answer the calls of this service."""
    placement_pb2_grpc.add_PlacementServicer_to_server(service, server)


class PlacementService(placement_pb2_grpc.PlacementServicer):
    """Service of one seat. `uncordon` is None on all agents but the lead's."""

    def __init__(
        self,
        spec: ClusterSpec,
        seat: Seat,
        refuse_strangers: Callable[[agent_pb2.TaskIdentity, _Context[Any, Any]], Awaitable[None]],
        uncordon: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._spec, self._seat, self._uncordon = spec, seat, uncordon
        self._refuse_strangers = refuse_strangers

    async def Seat(
        self,
        request: placement_pb2.SeatRequest,
        context: _Context[placement_pb2.SeatRequest, placement_pb2.SeatReply],
    ) -> placement_pb2.SeatReply:
        await self._refuse_others(request, context)
        return wire.seat_message(await self._seat.report())

    async def Place(
        self,
        request: placement_pb2.PlaceRequest,
        context: _Context[placement_pb2.PlaceRequest, placement_pb2.SeatReply],
    ) -> placement_pb2.SeatReply:
        await self._refuse_others(request, context)
        try:
            placement = parse_placement(request.placement, self._spec)
            await self._seat.accept(placement, bounded(request.reason, _MOST_REASON))
        except UsageError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TfscaleError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return wire.seat_message(await self._seat.report())

    async def Uncordon(
        self,
        request: placement_pb2.UncordonRequest,
        context: _Context[placement_pb2.UncordonRequest, placement_pb2.SeatReply],
    ) -> placement_pb2.SeatReply:
        await self._refuse_strangers(request.to, context)
        try:
            if self._uncordon is None:
                lead = next(iter(self._seat.placement.seats.items()))
                raise GangError(
                    f"{self._seat.address} does not lead the cluster: ask the agent of {lead[0]} at {lead[1]}"
                )
            await self._uncordon(request.host)
        except UsageError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TfscaleError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return wire.seat_message(await self._seat.report())

    async def _refuse_others(
        self, request: placement_pb2.SeatRequest | placement_pb2.PlaceRequest, context: _Context[Any, Any]
    ) -> None:
        await self._refuse_strangers(request.to, context)
        if request.seat != str(self._seat.address):
            why = f"this is the agent of {self._seat.address}, and the request is for {bounded(request.seat, 60)}"
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{why}: correct [agents] or [spares] in the cluster file")
