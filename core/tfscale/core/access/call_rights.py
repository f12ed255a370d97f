"""Calls of an agent's services: who may make each, and whether it has to name the task that it is for."""

from __future__ import annotations

from typing import NamedTuple

from tfscale.core.access.caller_role import CallerRole


class Call(NamedTuple):
    """Conditions of one call."""

    role: CallerRole | None
    """Least role of the caller; None: open to all who reach the agent."""
    is_named: bool = False
    """True where a request is refused that does not say for which task and which cluster it is."""


CALLS = {
    "Watch": Call(None),
    "Describe": Call(None),
    "FollowLog": Call(CallerRole.OBSERVER),
    "Stack": Call(CallerRole.OBSERVER),
    "Restart": Call(CallerRole.OPERATOR, is_named=True),
    "Stop": Call(CallerRole.OPERATOR, is_named=True),
    "Start": Call(CallerRole.OPERATOR, is_named=True),
    "Profile": Call(CallerRole.OPERATOR),
    "Apply": Call(CallerRole.AGENT, is_named=True),
    "ReportFailure": Call(CallerRole.AGENT, is_named=True),
    "Examine": Call(CallerRole.OPERATOR),
    "Reach": Call(CallerRole.OPERATOR),
    "Send": Call(CallerRole.OPERATOR),
    "Seat": Call(None),
    "Place": Call(CallerRole.AGENT),
    "Uncordon": Call(CallerRole.OPERATOR),
}
"""Every call by the name of its method. On loopback a token stands for the role: all calls with a role need one."""
UNKNOWN = Call(CallerRole.AGENT)
"""Conditions of a call that has no row: nobody but an agent may make it."""


def needs_token(method: str) -> bool:
    """Return whether a caller on loopback sends the token: with calls that change a task or read what is private."""
    return CALLS.get(method, UNKNOWN).role is not None
