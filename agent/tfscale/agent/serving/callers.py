"""Callers of an agent: who calls, by certificate or token, and why a caller is refused."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc.aio
from tfscale.agent.settings import AgentSettings
from tfscale.core.access.caller_role import CallerRole, role_of
from tfscale.core.cluster.local.agent_token import TOKEN_KEY
from tfscale.core.cluster.local.local_agents import announcements_folder
from tfscale.core.cluster.security import uses_tls
from tfscale.core.text import bounded

_MOST_NAME = 64
ORDERED_BY: ContextVar[str] = ContextVar("ordered_by", default="its agent")
"""Words for the caller of the order that is carried out."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of the agent, in words, and its rights."""

    who: str
    role: CallerRole | None


class Callers:
    """Recognition of callers. `token` is what callers on loopback must bring."""

    def __init__(self, settings: AgentSettings, token: str) -> None:
        self._token = token.encode()
        listen, spec = settings.listen, settings.cluster
        self._has_tls = uses_tls(listen, spec, settings.insecure)
        self._has_roles = spec.tls is not None and spec.tls.has_roles
        self._needs_token = listen.is_loopback and not settings.insecure_loopback
        self._stranger = "loopback" if listen.is_loopback else "anyone"

    def caller_of(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        """Return who makes the call of this context."""
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
        """Return the caller that the certificate names. `facts` are gRPC's about the connection."""
        uris = [uri.decode(errors="replace") for uri in facts.get("peer_uri", ())]
        names = [*facts.get("x509_common_name", ()), *facts.get("x509_subject_alternative_name", ())]
        name = bounded(next(iter(names), b"without a name").decode(errors="replace"), _MOST_NAME)
        if not self._has_roles:
            return Caller(name, CallerRole.AGENT)
        role = role_of(uris)
        return Caller(f"{name} ({role})" if role is not None else f"{name} (no role)", role)

    def refusal(self, what: str, needed: CallerRole, caller: Caller) -> str:
        """Return why a caller may not make the call, and what to do."""
        if self._has_tls:
            return (
                f"{what} needs the role {needed}, and the certificate is that of {caller.who}: make one with "
                'tfscale-agent certificates, or give agents roles = "off" in [tls]'
            )
        return (
            f"{what} is for user {os.getuid()} alone, who can read this agent's token in "
            f"{announcements_folder(os.environ)}: call as that user with the same XDG_RUNTIME_DIR and TMPDIR, or start "
            "the agent with --insecure-loopback"
        )
