"""Exit statuses of `tfscale-console`; errors bring their own, as UsageError 2."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Outcome of a run without an error."""

    WELL = 0
    NOTHING = 1
    """No agent answered, or what `--until` waits for can no longer come."""
    UNHEALTHY = 3
    """`--once` found a grave diagnosis, or a task that does not run; `doctor` found a fault."""
    OUTDATED = 4
    """`--once` could not catch up with the agents: its snapshot is of the past."""
