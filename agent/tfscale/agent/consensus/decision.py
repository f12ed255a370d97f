"""Decision: the state of the register after a number of changes."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.errors import UsageError

MOST_VALUE = 64 << 10
"""Bytes of a value: it travels, and is written, with each vote."""
KEPT_CHANGES = 32
"""Changes whose identifiers a decision keeps. A proposer that others overtook more often than that while it did not
know whether its change was made can no longer tell."""


class ValueTooLarge(UsageError):
    """A value that the register does not hold."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Value of the register, and how it came to be."""

    version: int = 0
    """Number of changes so far."""
    value: bytes = b""
    changes: tuple[str, ...] = ()
    """Identifiers of the last changes, the newest last."""

    def changed(self, change: str, value: bytes) -> Decision:
        """Return the decision after one more change."""
        return Decision(self.version + 1, value, (*self.changes, change)[-KEPT_CHANGES:])


EMPTY = Decision()
"""Decision before the first change."""


def checked_value(value: bytes) -> bytes:
    """Return the value. Raises ValueTooLarge."""
    if len(value) > MOST_VALUE:
        raise ValueTooLarge(f"a value of {len(value)} bytes is too large: at most {MOST_VALUE} can be decided")
    return value
