"""Tunnel between a socket and a call of gRPC: bytes go both ways unread, so that TLS ends at neither side of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import grpc.aio

PIECE = 16 << 10
"""Most bytes of one message, and most that wait for a socket: a side that reads slowly stops the other."""
_LAST = 2.0
"""Seconds in which a socket takes the last bytes: one whose other end does not read would be held for good."""
_ENDED = (OSError, grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError)


async def carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    receive: Callable[[], Awaitable[bytes | None]],
    send: Callable[[bytes], Awaitable[None]],
    idle: float,
) -> None:
    """Carry bytes until a side ends, or none has sent anything for `idle` seconds; then close the socket.

    `receive` returns the next bytes of the call, None at its end.
    """
    moved = time.monotonic()
    writer.transport.set_write_buffer_limits(high=PIECE)

    async def outward() -> None:
        nonlocal moved
        while data := await reader.read(PIECE):
            moved = time.monotonic()
            await send(data)

    async def inward() -> None:
        nonlocal moved
        while (data := await receive()) is not None:
            moved = time.monotonic()
            writer.write(data)
            await writer.drain()

    ways = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        while (left := moved + idle - time.monotonic()) > 0:
            done, _ = await asyncio.wait(ways, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
    finally:
        for way in ways:
            way.cancel()
        outcomes = await asyncio.gather(*ways, return_exceptions=True)
        await _close(writer)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, _ENDED):
                raise outcome


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_LAST):
                await writer.wait_closed()
    finally:
        writer.transport.abort()
