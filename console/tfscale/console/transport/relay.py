"""Relay: an agent that connects this console to others, and the local sockets that lead through one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import RenewedChannel
from tfscale.core.text import printable
from tfscale.core.wire.convert import read_by
from tfscale.core.wire.fields import WireError
from tfscale.core.wire.tunnel import PIECE, carry
from tfscale.v1 import agent_pb2, relay_pb2

_TUNNEL = f"/{relay_pb2.DESCRIPTOR.services_by_name['Relay'].full_name}/Tunnel"
_PATIENCE = 3.0
"""Seconds in which a relay connects: it gives itself two."""
_AT_ONCE = 128
"""Most calls that are opened at a time. Of 2,000 at once gRPC takes some 200 for failed by itself, where the relay has
refused them in words before their first message counts as sent; of 256 at a time none."""
_IDLE = 600.0
"""Seconds without a byte after which a connection ends; the agent ends it before."""


class RelayError(Exception):
    """Relay that does not connect to an agent; `is_its_own` where another relay could."""

    def __init__(self, why: str, *, is_its_own: bool) -> None:
        super().__init__(why)
        self.is_its_own = is_its_own


class Relay:
    """Agent that relays. `name` is what people call it."""

    def __init__(self, name: str, channel: RenewedChannel, fingerprint: str) -> None:
        self.name, self._channel, self._fingerprint = name, channel, fingerprint
        self._opening = asyncio.Semaphore(_AT_ONCE)
        self.refusal = ""
        """Reason why it relays nothing at all."""

    async def try_out(self, address: Address) -> None:
        """Connect to the agent at an address once. Raises RelayError."""
        async with self.tunnel(address):
            pass

    @asynccontextmanager
    async def tunnel(self, address: Address) -> AsyncIterator[Any]:
        """Open a call that carries bytes to the agent at an address, until the block ends. Raises RelayError."""
        serialize = relay_pb2.TunnelRequest.SerializeToString
        to = agent_pb2.TaskIdentity(fingerprint=self._fingerprint)
        call: Any = None
        try:
            try:
                async with self._opening, asyncio.timeout(_PATIENCE):
                    call = self._channel.opened().stream_stream(_TUNNEL, request_serializer=serialize)()
                    await call.write(relay_pb2.TunnelRequest(to=to, address=str(address)))
                    if await call.read() is grpc.aio.EOF:
                        raise RelayError(f"{self.name} has ended", is_its_own=True)
            except grpc.aio.AioRpcError as error:
                raise self._why_not(error) from None
            except (TimeoutError, asyncio.InvalidStateError):
                raise RelayError(f"{self.name} does not answer", is_its_own=True) from None
            yield call
        finally:
            if call is not None:
                call.cancel()

    def _why_not(self, error: grpc.aio.AioRpcError) -> RelayError:
        details = printable((error.details() or error.code().name).splitlines()[0])
        match error.code():
            case grpc.StatusCode.FAILED_PRECONDITION:
                return RelayError(f"{details}, as seen from {self.name}", is_its_own=False)
            case grpc.StatusCode.UNIMPLEMENTED:
                self.refusal = f"{self.name} is of a version that does not relay: update it"
            case grpc.StatusCode.PERMISSION_DENIED:
                self.refusal = f"{self.name} does not relay: {details}"
            case grpc.StatusCode.UNAVAILABLE:
                return RelayError(f"{self.name} does not answer", is_its_own=True)
            case _:
                return RelayError(f"{self.name} does not relay: {details}", is_its_own=True)
        return RelayError(self.refusal, is_its_own=True)


class RelaySocket:
    """Unix socket of this console; each connection to it goes through a relay to the agent at an address."""

    def __init__(self, path: str, address: Address, relay: Callable[[], Relay]) -> None:
        self.path, self._address, self._relay = path, address, relay
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self.path, limit=PIECE)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(RelayError, WireError):
                async with self._relay().tunnel(self._address) as call:
                    await carry(reader, writer, lambda: _received(call), lambda data: _send(call, data), _IDLE)
        finally:
            writer.close()


async def _received(call: Any) -> bytes | None:
    data = await call.read()
    return None if data is grpc.aio.EOF else read_by(relay_pb2.TunnelReply.FromString, data).data


async def _send(call: Any, data: bytes) -> None:
    await call.write(relay_pb2.TunnelRequest(data=data))
