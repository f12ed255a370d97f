"""Limit of open files: each connection to an agent is one, and a task has the limit that it would have without."""

from __future__ import annotations

import resource

GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Limits of open files at the start of this process: in force, and highest allowed."""
_MOST = 65_536
"""Files that are enough; some systems have no limit, and a few programs walk through all that could be open."""


def allow_many() -> None:
    """Raise this process's limit as far as it may: 1,024 is usual, and idle connections would leave no file."""
    given, most = GIVEN
    wanted = _MOST if most == resource.RLIM_INFINITY else min(most, _MOST)
    if given != resource.RLIM_INFINITY and given < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
