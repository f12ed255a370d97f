"""Token of an agent on loopback: only the agent's own user can read the token, and so give orders.

It stands in the announcement of the agent, which is locked for as long as the agent lives. A token of an agent that has
ended is not sent, since another user could listen at its port by then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from tfscale.core.access.call_rights import needs_token
from tfscale.core.cluster.cluster_spec import Address, parse_address
from tfscale.core.cluster.local.local_agents import LocalAgent, local_agents
from tfscale.core.errors import UsageError

TOKEN_KEY = "tfscale-token"
"""Name of the token in a call's metadata."""
_Tokens = tuple[str, ...]
_Continuation = Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]]


def tokens_of(address: Address) -> _Tokens:
    """Return the tokens of this user's agents at an address; each network namespace may have an agent there."""
    found = local_agents(os.environ, address.port)
    return tuple(agent.token for agent in found if agent.token and _serves(agent, address))


def token_senders(address: Address) -> list[grpc.aio.ClientInterceptor]:
    """Return the interceptors that add the agent's token to each call that needs one; `address` is the agent's."""
    return [_UnarySender(address), _StreamSender(address)]


class _Sender:
    def __init__(self, address: Address) -> None:
        self._address = address

    def _tokens(self, details: grpc.aio.ClientCallDetails) -> _Tokens:
        method = details.method.decode() if isinstance(details.method, bytes) else str(details.method)
        return tokens_of(self._address) if needs_token(method.rpartition("/")[2]) else ()


class _UnarySender(_Sender, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: _Continuation, client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        sent = self._tokens(client_call_details)
        call = await continuation(_with(client_call_details, sent), request)
        try:
            is_refused = await call.code() is grpc.StatusCode.PERMISSION_DENIED
        except asyncio.CancelledError:
            call.cancel()
            raise
        # An agent that was started again while the call waited for it has another token.
        if is_refused and (fresh := self._tokens(client_call_details)) != sent:
            return await continuation(_with(client_call_details, fresh), request)
        return call


class _StreamSender(_Sender, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: _Continuation, client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        return await continuation(_with(client_call_details, self._tokens(client_call_details)), request)


def _with(details: grpc.aio.ClientCallDetails, tokens: _Tokens) -> grpc.aio.ClientCallDetails:
    if not tokens:
        return details
    metadata = grpc.aio.Metadata(*(details.metadata or ()), *((TOKEN_KEY, token) for token in tokens))
    given = (details.method, details.timeout, metadata, details.credentials, details.wait_for_ready)
    return grpc.aio.ClientCallDetails(*given)


def _serves(agent: LocalAgent, address: Address) -> bool:
    """Return whether an announced agent is meant by a loopback address, which may have several names."""
    try:
        own = parse_address(agent.address)
    except UsageError:
        return False
    is_same_host = own.host == address.host or "localhost" in (own.host, address.host)
    return own.port == address.port and own.is_loopback and is_same_host
