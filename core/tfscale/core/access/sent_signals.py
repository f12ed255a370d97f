"""Signals that an operator may have sent to a task."""

from __future__ import annotations

from tfscale.core.errors import UsageError
from tfscale.core.failure.task_signals import TaskSignal

_UNHANDLED = {TaskSignal.SIGKILL, TaskSignal.SIGSTOP}
"""Signals that no program can handle: one ends the task as a failure would, the other makes it look hung."""


def signal_named(name: str) -> TaskSignal:
    """Return the signal of a name such as `USR1` or `SIGUSR1`. Raises UsageError where it may not be sent."""
    word = name.upper().removeprefix("SIG")
    if (named := TaskSignal.__members__.get(f"SIG{word}")) is None:
        raise UsageError(f"no signal {name!r}: write a name such as USR1 or HUP")
    if named in _UNHANDLED:
        raise UsageError(f"{word} is not sent, since no program can handle it: give the order stop to end the task")
    return named
