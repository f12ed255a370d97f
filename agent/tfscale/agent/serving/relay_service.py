"""gRPC service by which a console reaches other agents through this one. It only translates."""

from __future__ import annotations

import logging
from typing import Any

import grpc.aio
from tfscale.agent.network.relayed_connections import IDLE, RelayedConnections
from tfscale.core.text import bounded
from tfscale.core.wire.convert import read_by
from tfscale.core.wire.tunnel import PIECE, carry
from tfscale.v1 import relay_pb2, relay_pb2_grpc

_logger = logging.getLogger(__name__)
RELAY_NAME = relay_pb2.DESCRIPTOR.services_by_name["Relay"].full_name
_Context = grpc.aio.ServicerContext[Any, Any]


def serve_relay(server: grpc.aio.Server, connections: RelayedConnections) -> None:
    """Have the server relay connections."""
    relay_pb2_grpc.add_RelayServicer_to_server(RelayService(connections), server)


class RelayService(relay_pb2_grpc.RelayServicer):
    """Service of one agent."""

    def __init__(self, connections: RelayedConnections) -> None:
        self._connections = connections

    async def Tunnel(self, request: relay_pb2.TunnelRequest, context: _Context) -> None:  # type: ignore[override]
        """Answer the call whose first request the gatekeeper has read; the others are read here."""
        async with self._connections.connected(request.address) as (reader, writer):
            _logger.debug("%s is relayed to %s", context.peer(), bounded(request.address, 60))
            await context.write(relay_pb2.TunnelReply())

            async def receive() -> bytes | None:
                data = await context.read()
                if data is grpc.aio.EOF:
                    return None
                piece: bytes = read_by(relay_pb2.TunnelRequest.FromString, data).data
                return piece if len(piece) <= PIECE else None

            async def send(data: bytes) -> None:
                await context.write(relay_pb2.TunnelReply(data=data))

            await carry(reader, writer, receive, send, IDLE)
