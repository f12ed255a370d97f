"""Working folder of a program: it may have been removed since the shell entered it."""

from __future__ import annotations

from pathlib import Path

from tfscale.core.errors import UsageError


def check_working_folder() -> None:
    """Raise UsageError where the working folder was removed: no training could be started in it."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UsageError("the working folder was removed: change to one that is there") from None
