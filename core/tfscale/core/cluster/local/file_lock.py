"""Locks of open files: by its lock a process shows that it lives, since the system drops the lock at the process's end.

Agents run on Linux alone. A console elsewhere finds none of them, where its system has no such locks, either.
"""

from __future__ import annotations

from typing import IO, Any

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[Any]) -> None:
    """Lock the file against all others, as long as it is open. Raises OSError."""
    fcntl.flock(file, fcntl.LOCK_EX)


def is_locked(file: IO[Any]) -> bool:
    """Return whether another process has locked the file. Raises OSError."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def lock_now(file: IO[Any]) -> bool:
    """Lock the file against all others, as long as it is open; return False where another process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
