"""Exit statuses of `tfscale-console`: the one vocabulary of its commands."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Outcome of a command. Errors bring 1 or 2 (`core/errors.py`), `run` also the status of its program."""

    WELL = 0
    NOTHING = 1
    """No agent answered, an order failed, or what `--until` waits for can no longer come."""
    USAGE = 2
    """The words, the settings or a file of the caller are wrong."""
    UNHEALTHY = 3
    """`--once` found a grave diagnosis, or a task that does not run; `doctor` found a fault."""
    OUTDATED = 4
    """`--once` could not catch up with the agents: its snapshot is of the past."""
    NOT_YET = 5
    """`--once` found a training of which nothing can be said yet: it starts, or has reported no task."""
    INTERRUPTED = 130
    """Ctrl-C ended it."""
