"""Two servers of the agent: gRPC for consoles and peers, a Unix socket for the task's reports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection
from tfscale.agent.serving.service import SERVICE_NAME, AgentService
from tfscale.agent.settings import AgentSettings
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import SERVER_OPTIONS, server_credentials
from tfscale.core.errors import TfscaleError

_logger = logging.getLogger(__name__)
_GRACE = 0.5
"""Seconds for calls under way when the server stops."""
_RETRY = 1.0
"""Seconds until the next attempt to accept a connection."""


class ServerError(TfscaleError):
    """An address or a socket that cannot be served."""


class AgentServer:
    """gRPC server. It holds its port from construction on: a busy port is found before anything is started."""

    def __init__(self, settings: AgentSettings, service: AgentService) -> None:
        credentials = server_credentials(settings.listen, settings.cluster, settings.insecure)
        _try_port(settings.listen)
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        service.add_to(self._server)
        self._health = HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE_NAME, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        address = str(settings.listen)
        try:
            if credentials is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise ServerError(f"cannot listen on {address} ({error}): give another address with --listen") from None

    async def start(self) -> None:
        for name in ("", SERVICE_NAME):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(_GRACE)


def _try_port(address: Address) -> None:
    """Open and close the port once, because gRPC reports the cause of a failure only in its own log.

    Raises ServerError.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        socket.create_server(place[:2], family=family).close()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ServerError(f"cannot listen on {address} ({why}): give another address with --listen") from None


class ReportServer:
    """Server of the task's reports, on a socket that only this user may open."""

    def __init__(self, path: Path, reports: ProbeReports) -> None:
        self._path = path
        self._reports = reports
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve the socket. Raises ServerError if it cannot be made."""
        listening = socket.socket(socket.AF_UNIX)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)  # an agent that was killed has left it
            listening.bind(str(self._path))
            self._path.chmod(0o600)
        except OSError:
            listening.close()
            self._remove()
            raise ServerError(f"cannot serve the task's reports on {self._path}: look at that folder") from None
        listening.listen()
        listening.setblocking(False)
        self._listening = listening
        self._accepting = asyncio.create_task(self._accept(listening))

    async def stop(self) -> None:
        if self._accepting is None or self._listening is None:
            return
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        self._listening.close()
        self._reports.close()
        self._remove()

    def _remove(self) -> None:
        """Remove the socket, which the next agent of this task makes anew."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                process, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                # Out of files, for example: it may have them again.
                _logger.warning("a process of the task cannot connect, tried again in %g s: %s", _RETRY, error)
                await asyncio.sleep(_RETRY)
            else:
                self._reports.accept(process)
