"""Limit of open files: each connection to an agent is an open file, and the task keeps its usual limit."""

from __future__ import annotations

import resource

from tfscale.core.errors import UsageError

GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Limits of open files at the start of this process: in force, and highest allowed."""
_MOST = 65_536
"""Limit that suffices; some systems have no limit, and a few programs walk through all possible files."""


def allow(needed: int) -> None:
    """Raise this process's limit if it is below `needed` files. Raises UsageError where so many are not allowed."""
    given, most = GIVEN
    if resource.RLIM_INFINITY != most < needed:
        raise UsageError(f"the limit of open files is {most} (ulimit -Hn), and {needed} are needed: raise that limit")
    if resource.RLIM_INFINITY != given < needed:
        allow_many()


def allow_many() -> None:
    """Raise this process's limit as far as allowed: the usual 1,024 leaves no file beside many idle connections."""
    given, most = GIVEN
    wanted = _MOST if most == resource.RLIM_INFINITY else min(most, _MOST)
    if given != resource.RLIM_INFINITY and given < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
