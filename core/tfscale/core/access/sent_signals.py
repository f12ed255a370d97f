"""Signals that an operator may have sent to a task."""

from __future__ import annotations

import signal

from tfscale.core.errors import UsageError

_UNHANDLED = {signal.SIGKILL, signal.SIGSTOP}
"""Signals that no program can handle: one ends the task as a failure would, the other makes it look hung."""


def signal_named(name: str) -> signal.Signals:
    """Return the signal of a name such as `USR1` or `SIGUSR1`. Raises UsageError where it may not be sent."""
    word = name.upper().removeprefix("SIG")
    number = getattr(signal.Signals, f"SIG{word}", None)
    if number is None:
        raise UsageError(f"no signal {name!r}: write a name such as USR1 or HUP")
    if number in _UNHANDLED:
        raise UsageError(f"{word} is not sent, since no program can handle it: give the order stop to end the task")
    return signal.Signals(number)
