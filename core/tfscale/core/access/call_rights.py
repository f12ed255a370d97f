"""Calls of an agent's services: the least role of each, and if a request must name its task."""

from __future__ import annotations

from typing import NamedTuple

from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.orders import CARRIER, ORDERS, Subject


class Call(NamedTuple):
    """Conditions of one call."""

    role: CallerRole | None
    """Least role of the caller; None: every caller that reaches the agent may make the call."""
    is_named: bool = False
    """True if a request must name its task and cluster, or else is refused."""


CALLS = {
    **{order.call: Call(order.role, is_named=order.subject is not Subject.TASK) for order in ORDERS.values()},
    CARRIER: Call(CallerRole.OPERATOR, is_named=True),
    "Watch": Call(None),
    "Describe": Call(None),
    "FollowLog": Call(CallerRole.OBSERVER),
    "Apply": Call(CallerRole.AGENT, is_named=True),
    "ReportFailure": Call(CallerRole.AGENT, is_named=True),
    "Tunnel": Call(CallerRole.OBSERVER),
    "Examine": Call(CallerRole.OPERATOR),
    "Reach": Call(CallerRole.OPERATOR),
    "Send": Call(CallerRole.OPERATOR),
    "Seat": Call(None),
    "Place": Call(CallerRole.AGENT),
    "Prepare": Call(CallerRole.AGENT),
    "Accept": Call(CallerRole.AGENT),
    "Look": Call(CallerRole.AGENT),
    "Introduce": Call(CallerRole.AGENT),
}
"""Every call by the name of its method; orders that the carrier carries have roles of their own.

On loopback a token stands for the role: all calls with a role need it.
"""
UNKNOWN = Call(CallerRole.AGENT)
"""Conditions of a call that has no row: only agents may make such a call."""


def least_role(method: str, order: str = "") -> CallerRole | None:
    """Return the least role for a call, None for a call that is open to all; `order` is the name in an `Order` call."""
    row = ORDERS.get(order) if method == CARRIER else None
    return CALLS.get(method, UNKNOWN).role if row is None else row.role


def needs_token(method: str) -> bool:
    """Return whether a caller on loopback sends the token: calls that change a task or read private data need one."""
    return CALLS.get(method, UNKNOWN).role is not None
