"""Requests that are no messages: refused with one line, as every other wrong request is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import grpc.aio
from tfscale.core.wire.convert import WireError, read_by

_Context = grpc.aio.ServicerContext[Any, Any]


class ReadableRequests(grpc.aio.ServerInterceptor):
    """Interceptor of the calls of some services, given by their names.

    gRPC itself would answer bytes that are no message with UNKNOWN, and write a traceback for each to the log.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._services = frozenset(f"/{service}" for service in services)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.rpartition("/")[0] not in self._services:
            return handler  # type: ignore[no-any-return]
        if handler.response_streaming:
            stream = _reading_stream(handler.request_deserializer, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(stream, None, handler.response_serializer)
        unary = _reading(handler.request_deserializer, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(unary, None, handler.response_serializer)


def _reading(read: Callable[[bytes], Any], behavior: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    async def reading(data: bytes, context: _Context) -> Any:
        return await behavior(await _message(read, data, context), context)

    return reading


def _reading_stream(read: Callable[[bytes], Any], behavior: Callable[[Any, Any], Any]) -> Any:
    async def reading(data: bytes, context: _Context) -> AsyncIterator[Any]:
        async with aclosing(behavior(await _message(read, data, context), context)) as replies:
            async for reply in replies:
                yield reply

    return reading


async def _message(read: Callable[[bytes], Any], data: bytes, context: _Context) -> Any:
    try:
        return read_by(read, data)
    except WireError as error:
        why = f"the request is no message of the service: {error}"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
