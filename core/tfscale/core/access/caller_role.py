"""Roles of callers, as their certificates name them: `tfscale:operator` as a URI."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

_SCHEME = "tfscale:"


class CallerRole(IntEnum):
    """Role of a caller. Each role may do what the role before it may."""

    OBSERVER = 1
    """Looks: streams, logs and stacks."""
    OPERATOR = 2
    """Gives orders."""
    AGENT = 3
    """Carries out orders at other agents."""

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def uri(self) -> str:
        """URI in the subjectAltName of a certificate of this role."""
        return f"{_SCHEME}{self}"


def role_of(uris: Iterable[str]) -> CallerRole | None:
    """Return the highest role that a certificate's URIs name, None where they name none."""
    found = set(uris)
    return max((role for role in CallerRole if role.uri in found), default=None)
