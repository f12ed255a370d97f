"""Channel whose calls raise an error of gRPC for an answer that is no message.

gRPC itself writes a traceback then, and gives the caller None.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import grpc
import grpc.aio
from tfscale.core.wire.convert import read_by
from tfscale.core.wire.fields import WireError

_Read = Callable[[bytes], Any]


def readable(channel: grpc.aio.Channel) -> grpc.aio.Channel:
    """Return the channel for a stub; its calls can be awaited, iterated, read and cancelled, and nothing else."""
    return cast(grpc.aio.Channel, _ReadableChannel(channel))


class _ReadableChannel:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: _Read, **_: Any) -> Any:
        ask: Any = self._channel.unary_unary(method, request_serializer=request_serializer)

        async def call(request: Any, **options: Any) -> Any:
            return _read(response_deserializer, await ask(request, **options))

        return call

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: _Read, **_: Any) -> Any:
        ask: Any = self._channel.unary_stream(method, request_serializer=request_serializer)
        return lambda request, **options: _Stream(ask(request, **options), response_deserializer)


class _Stream:
    """Messages of a call under way."""

    def __init__(self, call: Any, read: _Read) -> None:
        self._call, self._read = call, read

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for data in self._call:
            yield _read(self._read, data)

    async def read(self) -> Any:
        """Return the next message, or EOF. Raises AioRpcError."""
        data = await self._call.read()
        return data if data is grpc.aio.EOF else _read(self._read, data)

    def cancel(self) -> None:
        self._call.cancel()


def _read(read: _Read, data: bytes) -> Any:
    try:
        return read_by(read, data)
    except WireError:
        nothing = grpc.aio.Metadata()
        why = "its answer is no message of tfscale"
        raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, details=why) from None
