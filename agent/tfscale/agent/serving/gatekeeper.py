"""Gatekeeper of the agent's services: it reads each request, refuses what is not allowed, and records orders.

A service behind it gets only messages for its agent, from callers who may make the call; an error that the service
raises becomes the status of the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.agent.serving.audit_log import AuditedOrder, AuditLog
from tfscale.agent.serving.callers import ORDERED_BY, Caller, Callers
from tfscale.agent.serving.consensus_service import CONSENSUS_NAME
from tfscale.agent.serving.placement_service import PLACEMENT_NAME
from tfscale.agent.serving.preflight_service import PREFLIGHT_NAME
from tfscale.agent.serving.relay_service import RELAY_NAME
from tfscale.agent.serving.service import SERVICE_NAME
from tfscale.agent.serving.status_codes import Stranger, status_code
from tfscale.core.access.call_rights import CALLS, UNKNOWN, least_role
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.errors import TfscaleError
from tfscale.core.wire.convert import read_by
from tfscale.core.wire.fields import WireError

_logger = logging.getLogger(__name__)
_MOST_REFUSED = 100
"""Refused callers and strangers that are logged as a warning, once each: a console asks again every second."""
SERVICES = (SERVICE_NAME, PREFLIGHT_NAME, PLACEMENT_NAME, CONSENSUS_NAME, RELAY_NAME)
"""Names of the services whose calls the gatekeeper checks."""
_FIRST = 10.0
"""Seconds for the first request of a call that sends several: until then nobody knows what it is for."""
_Context = grpc.aio.ServicerContext[Any, Any]


class Gatekeeper(grpc.aio.ServerInterceptor):
    """Interceptor of all calls to the agent of this identity."""

    def __init__(self, identity: TaskIdentity, callers: Callers, audit: AuditLog) -> None:
        self._identity, self._callers, self._audit = identity, callers, audit
        self._refused: set[tuple[str, str]] = set()
        """Refusals that are in the log as warnings already."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        service, _, method = handler_call_details.method.removeprefix("/").rpartition("/")
        if handler is None or service not in SERVICES:
            return handler  # type: ignore[no-any-return]
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(self._exchange(method, handler), None, wire.serialized)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler), None, wire.serialized)
        return grpc.unary_unary_rpc_method_handler(self._unary(method, handler), None, handler.response_serializer)

    def _unary(self, method: str, handler: Any) -> Any:
        async def answer(data: bytes, context: _Context) -> Any:
            async with self._admitted(method, handler.request_deserializer, data, context) as (request, outcome):
                outcome.reply = await handler.unary_unary(request, context)
                return outcome.reply

        return answer

    def _stream(self, method: str, handler: Any) -> Any:
        # Written, not yielded: a frame a second for each console passes one generator less.
        async def answer(data: bytes, context: _Context) -> None:
            async with (
                self._admitted(method, handler.request_deserializer, data, context) as (request, outcome),
                aclosing(handler.unary_stream(request, context)) as replies,
            ):
                async for reply in replies:
                    outcome.reply = reply
                    await context.write(reply)

        return answer

    def _exchange(self, method: str, handler: Any) -> Any:
        async def answer(_requests: object, context: _Context) -> None:
            data: Any = grpc.aio.EOF
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST):
                    data = await context.read()
            if data is grpc.aio.EOF:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no request came in {_FIRST:g} s")
            async with self._admitted(method, handler.request_deserializer, data, context) as (request, _):
                await handler.stream_stream(request, context)

        return answer

    @asynccontextmanager
    async def _admitted(
        self, method: str, read: Callable[[bytes], Any], data: bytes, context: _Context
    ) -> AsyncIterator[tuple[Any, _Outcome]]:
        """Let a call in, or refuse it; write an order's result to the audit log."""
        try:
            request = read_by(read, data)
        except WireError as error:
            # gRPC itself would answer UNKNOWN, and write a traceback to the log.
            await context.abort(status_code(error), f"the request is no message of the service: {error}")
        outcome = await self._begun(method, request, context)
        try:
            self._check_addressee(method, request)
            yield request, outcome
        except (TfscaleError, WireError) as error:
            outcome.write(f"refused: {error}")
            self._log(context, str(error), once=isinstance(error, Stranger) or not wire.is_order(request))
            await context.abort(status_code(error), str(error))
        except (asyncio.CancelledError, GeneratorExit):
            outcome.write("caller gone")
            raise
        except Exception as error:
            outcome.write(f"failed: {error!r}")
            raise
        outcome.write(wire.failure_of(outcome.reply) or "done")

    async def _begun(self, method: str, request: Any, context: _Context) -> _Outcome:
        """Return the open outcome of an allowed call; refuse any other call."""
        needed = least_role(method, getattr(request, "name", ""))
        if needed is None:
            return _Outcome(None)
        caller = self._callers.caller_of(context)
        order = self._audit.begin(caller.who, context.peer(), *wire.order_words(method, request))
        outcome = _Outcome(order if needed >= CallerRole.OPERATOR else None)
        if caller.role is None or caller.role < needed:
            await self._refuse(method, needed, caller, outcome, context)
        if not wire.is_order(request):
            return _Outcome(None)
        ORDERED_BY.set(caller.who)
        outcome.write("asked")
        return outcome

    async def _refuse(
        self, method: str, needed: CallerRole, caller: Caller, outcome: _Outcome, context: _Context
    ) -> None:
        why = self._callers.refusal(method, needed, caller)
        outcome.write(f"refused: {why}")
        self._log(context, f"{caller.who}: {why}", once=True)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)

    def _check_addressee(self, method: str, request: Any) -> None:
        """Raise Stranger for a request that is not meant for this agent, or an order without an addressee."""
        asked = wire.identity_record(request.to)
        if CALLS.get(method, UNKNOWN).is_named and not (asked.task and asked.fingerprint):
            raise Stranger(
                f"this is {self._identity}, and the request does not say whom it is for: name them in `to`, as "
                "Describe does"
            )
        if why := self._identity.why_not(asked):
            raise Stranger(why)

    def _log(self, context: _Context, why: str, *, once: bool) -> None:
        """Log a refusal as a warning; refusals that may come every second only the first time."""
        key = (context.peer().rpartition(":")[0], why)
        is_news = not once or (key not in self._refused and len(self._refused) < _MOST_REFUSED)
        if once and is_news:
            self._refused.add(key)
        _logger.log(logging.WARNING if is_news else logging.DEBUG, "refused a request of %s: %s", context.peer(), why)


class _Outcome:
    """Outcome of a call; `order` is None where it is not written to the audit log."""

    def __init__(self, order: AuditedOrder | None) -> None:
        self._order = order
        self.reply: Any = None
        """Last reply of the service."""

    def write(self, result: str) -> None:
        if self._order is not None:
            self._order.write(result)
