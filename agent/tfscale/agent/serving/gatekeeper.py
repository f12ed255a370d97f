"""Gatekeeper of the agent's service: it knows who calls, refuses what that caller may not do, and records orders."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.agent.serving.audit_log import AuditedOrder, AuditLog
from tfscale.agent.serving.placement_service import PLACEMENT_NAME
from tfscale.agent.serving.preflight_service import PREFLIGHT_NAME
from tfscale.agent.serving.service import SERVICE_NAME
from tfscale.agent.settings import AgentSettings
from tfscale.core.access.caller_role import CallerRole, role_of
from tfscale.core.cluster.local.agent_token import TOKEN_KEY
from tfscale.core.cluster.local.local_agents import announcements_folder
from tfscale.core.cluster.security import uses_tls
from tfscale.core.text import bounded

_logger = logging.getLogger(__name__)
_MOST_REFUSED = 100
"""Callers and calls of which the log tells as a warning once each."""
_MOST_NAME = 64
NEEDED: dict[str, CallerRole | None] = {
    "Watch": None,
    "Describe": None,
    "FollowLog": CallerRole.OBSERVER,
    "Stack": CallerRole.OBSERVER,
    "Restart": CallerRole.OPERATOR,
    "Stop": CallerRole.OPERATOR,
    "Start": CallerRole.OPERATOR,
    "Profile": CallerRole.OPERATOR,
    "Apply": CallerRole.AGENT,
    "ReportFailure": CallerRole.AGENT,
    "Examine": CallerRole.OPERATOR,
    "Reach": CallerRole.OPERATOR,
    "Send": CallerRole.OPERATOR,
    "Seat": None,
    "Place": CallerRole.AGENT,
    "Uncordon": CallerRole.OPERATOR,
}
"""Least role for each call, None for those that are open to all who reach the agent. Others need an agent's."""
SERVICES = (SERVICE_NAME, PREFLIGHT_NAME, PLACEMENT_NAME)
"""Names of the services whose calls these are."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One who calls, in words, and what it may do."""

    who: str
    role: CallerRole | None


class Gatekeeper(grpc.aio.ServerInterceptor):
    """Interceptor of all calls. `token` is what callers on loopback must bring."""

    def __init__(self, settings: AgentSettings, token: str, audit: AuditLog) -> None:
        self._audit = audit
        self._token = token.encode()
        self._refused: set[tuple[str, str]] = set()
        """Callers and calls that are in the log as warnings already."""
        listen, spec = settings.listen, settings.cluster
        self._has_tls = uses_tls(listen, spec, settings.insecure)
        self._has_roles = spec.tls is not None and spec.tls.has_roles
        self._needs_token = listen.is_loopback and not settings.insecure_loopback
        self._stranger = "loopback" if listen.is_loopback else "anyone"

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        service, _, method = handler_call_details.method.removeprefix("/").rpartition("/")
        needed = NEEDED.get(method, CallerRole.AGENT)
        if handler is None or service not in SERVICES or needed is None:
            return handler  # type: ignore[no-any-return]
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._guarded_stream(method, needed, handler.unary_stream),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._guarded(method, needed, handler.unary_unary),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _guarded(self, method: str, needed: CallerRole, behavior: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def guarded(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            async with self._admitted(method, needed, request, context) as order:
                reply = await behavior(request, context)
                order.heard(reply)
                return reply

        return guarded

    def _guarded_stream(self, method: str, needed: CallerRole, behavior: Callable[[Any, Any], Any]) -> Any:
        async def guarded(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            async with (
                self._admitted(method, needed, request, context) as order,
                aclosing(behavior(request, context)) as replies,
            ):
                async for reply in replies:
                    order.heard(reply)
                    yield reply

        return guarded

    @asynccontextmanager
    async def _admitted(
        self, method: str, needed: CallerRole, request: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[_Outcome]:
        """Let a call in, or refuse it; write down what comes of it if it is an order."""
        caller = self._caller(context)
        order = self._audit.begin(caller.who, context.peer(), *wire.order_words(method, request))
        outcome = _Outcome(order if needed >= CallerRole.OPERATOR else None)
        if caller.role is None or caller.role < needed:
            why = self._refusal(method, needed, caller)
            outcome.tell(f"refused: {why}")
            self._log_refusal(method, caller, context.peer(), why)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        if not wire.is_order(request):
            outcome = _Outcome(None)
        outcome.tell("asked")
        try:
            yield outcome
        except grpc.aio.AbortError:
            outcome.tell(f"refused: {context.details()}")
            raise
        except (asyncio.CancelledError, GeneratorExit):
            outcome.tell("caller gone")
            raise
        except Exception as error:
            outcome.tell(f"failed: {error!r}")
            raise
        outcome.tell(outcome.failure or "done")

    def _caller(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        if self._has_tls:
            return self._certified(context.auth_context())
        if not self._needs_token:
            return Caller(self._stranger, CallerRole.AGENT)
        sent = [value for key, value in context.invocation_metadata() or () if key == TOKEN_KEY]
        tokens = [token.encode(errors="replace") if isinstance(token, str) else token for token in sent]
        if any(hmac.compare_digest(token, self._token) for token in tokens):
            return Caller(f"user {os.getuid()}", CallerRole.AGENT)
        return Caller(self._stranger, None)

    def _certified(self, facts: Mapping[str, Iterable[bytes]]) -> Caller:
        """Return whom the certificate names. `facts` are gRPC's about the connection."""
        uris = [uri.decode(errors="replace") for uri in facts.get("peer_uri", ())]
        names = [*facts.get("x509_common_name", ()), *facts.get("x509_subject_alternative_name", ())]
        name = bounded(next(iter(names), b"without a name").decode(errors="replace"), _MOST_NAME)
        if not self._has_roles:
            return Caller(name, CallerRole.AGENT)
        role = role_of(uris)
        return Caller(f"{name} ({role})" if role is not None else f"{name} (no role)", role)

    def _refusal(self, method: str, needed: CallerRole, caller: Caller) -> str:
        if self._has_tls:
            return (
                f"{method} needs the role {needed}, and the certificate is that of {caller.who}: make one with "
                'tfscale-agent certificates, or give agents roles = "off" in [tls]'
            )
        return (
            f"{method} is for user {os.getuid()} alone, who can read this agent's token in "
            f"{announcements_folder(os.environ)}: call as that user with the same XDG_RUNTIME_DIR and TMPDIR, or start "
            "the agent with --insecure-loopback"
        )

    def _log_refusal(self, method: str, caller: Caller, where: str, why: str) -> None:
        is_news = (caller.who, method) not in self._refused and len(self._refused) < _MOST_REFUSED
        if is_news:
            self._refused.add((caller.who, method))
        _logger.log(logging.WARNING if is_news else logging.DEBUG, "refused %s at %s: %s", caller.who, where, why)


class _Outcome:
    """Outcome of a call; `order` is None where nobody writes it down."""

    def __init__(self, order: AuditedOrder | None) -> None:
        self._order = order
        self.failure = ""

    def heard(self, reply: Any) -> None:
        """Take a reply of the service."""
        self.failure = wire.failure_of(reply)

    def tell(self, result: str) -> None:
        if self._order is not None:
            self._order.tell(result)
