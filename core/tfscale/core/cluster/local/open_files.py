"""Limit of open files: each connection to an agent is an open file, and the task keeps its usual limit."""

from __future__ import annotations

import contextlib

from tfscale.core.errors import UsageError

try:
    import resource
except ModuleNotFoundError:  # Windows: sockets count among no files there
    resource = None  # type: ignore[assignment]

_UNLIMITED = -1 if resource is None else resource.RLIM_INFINITY
GIVEN = (_UNLIMITED, _UNLIMITED) if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)
"""Limits of open files at the start of this process: in force, and highest allowed."""
_MOST = 65_536
"""Limit that suffices; some systems have no limit, and a few programs walk through all possible files."""


def allow(needed: int) -> None:
    """Raise this process's limit if it is below `needed` files. Raises UsageError where so many are not allowed."""
    given, most = GIVEN
    if _UNLIMITED != most < needed:
        raise UsageError(f"the limit of open files is {most} (ulimit -Hn), and {needed} are needed: raise that limit")
    if _UNLIMITED != given < needed:
        allow_many()


def allow_many() -> None:
    """Raise this process's limit as far as allowed: the usual 1,024 leaves no file beside many idle connections."""
    given, most = GIVEN
    wanted = _MOST if most == _UNLIMITED else min(most, _MOST)
    if given != _UNLIMITED and given < wanted:
        with contextlib.suppress(ValueError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
