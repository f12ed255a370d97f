"""Exit statuses of all programs and scripts: one vocabulary, as docs/reference/exit-statuses.md has it."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Outcome of a command. A command that runs a program of the user's ends with that program's status instead."""

    WELL = 0
    NOTHING = 1
    """It could not be done: no agent answered, an order or a task failed, a file could not be written."""
    USAGE = 2
    """The words, the settings or a file of the caller are wrong."""
    UNHEALTHY = 3
    """It was done, and found a fault: a grave diagnosis, a test of a cluster that failed, a budget that is missed."""
    OUTDATED = 4
    """`--once` could not catch up with the agents: its snapshot is of the past."""
    NOT_YET = 5
    """Nothing can be said yet: a training starts, or the runs of a comparison differ too much from one another."""
    SHARED = 6
    """It was measured, but not what was asked for: workers did not have their cores for themselves."""
    INTERRUPTED = 130
    """Ctrl-C ended it."""
