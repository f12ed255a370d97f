"""Server of the agent's gRPC service, for consoles and peers."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection
from tfscale.agent.network.relayed_connections import RelayedConnections
from tfscale.agent.serving.audit_log import AuditLog
from tfscale.agent.serving.callers import Callers
from tfscale.agent.serving.gatekeeper import SERVICES, Gatekeeper
from tfscale.agent.serving.relay_service import serve_relay
from tfscale.agent.settings import AgentSettings
from tfscale.core.access.kept_certificates import KeptCertificates
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import SERVER_OPTIONS, uses_tls
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.errors import TfscaleError

_GRACE = 0.5
"""Seconds for calls under way when the server stops."""
_HELP = "give another address with --listen, or in [agents] of the cluster file"


class ServerError(TfscaleError):
    """An address that cannot be served."""


class PortTaken(ServerError):
    """A port that another server has."""


class Served(Protocol):
    """Services of one agent, beside the health of its server."""

    identity: TaskIdentity
    """Names that a request for the agent has."""
    health_names: Sequence[str]
    """Names under which gRPC's health service is asked about the agent."""

    def add_to(self, server: grpc.aio.Server, /) -> None:
        """Have the server answer its calls."""


class AgentServer:
    """gRPC server. It holds its port from construction on: a busy port is found before any start."""

    def __init__(
        self,
        settings: AgentSettings,
        service: Served,
        certificates: KeptCertificates | None,
        token: str,
        audit: Path,
    ) -> None:
        uses_tls(settings.listen, settings.cluster, settings.insecure)
        _try_port(settings.listen)
        self._audit = AuditLog(audit)
        gatekeeper = Gatekeeper(service.identity, Callers(settings, token), self._audit)
        self._server = grpc.aio.server(options=SERVER_OPTIONS, interceptors=[gatekeeper])
        service.add_to(self._server)
        serve_relay(self._server, RelayedConnections(settings.cluster))
        self._health = HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (
            *SERVICES,
            health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
            reflection.SERVICE_NAME,
        )
        reflection.enable_server_reflection(names, self._server)
        self._names = service.health_names
        address = str(settings.listen)
        try:
            if certificates is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, certificates.server_credentials())
        except RuntimeError as error:
            raise PortTaken(f"cannot listen on {address} ({error}): {_HELP}") from None

    async def start(self) -> None:
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(_GRACE)
        await self._audit.close()


def _try_port(address: Address) -> None:
    """Open and close the port once, because gRPC reports the cause of a failure only in its own log.

    Raises ServerError, PortTaken where that is the cause.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        socket.create_server(place[:2], family=family).close()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        kind = PortTaken if error.errno == errno.EADDRINUSE else ServerError
        raise kind(f"cannot listen on {address} ({why}): {_HELP}") from None
