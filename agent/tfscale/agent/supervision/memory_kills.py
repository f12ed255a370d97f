"""Processes that the kernel has killed for want of memory, on this host or in one of its containers."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

KILLED = "the kernel's OOM killer struck on its host in that second"
"""Line that explains a death by SIGKILL; the clues of a log know it by its OOM."""
_RECENT = 3
"""Samples, one a second, that are as old as a death may be which is explained by them."""
_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


class MemoryKills:
    """Count of these kills, by the kernel's own (`oom_kill` of /proc/vmstat): it tells of all groups, and to everybody.

    The kernel tells root alone which process it has killed; a task that dies of SIGKILL in a second in which it killed
    one is taken for it.
    """

    def __init__(self, vmstat: Path = Path("/proc/vmstat")) -> None:
        self._vmstat = vmstat
        self._counts: deque[int | None] = deque(maxlen=_RECENT)

    def note(self) -> None:
        """Note the count of this second."""
        self._counts.append(self._count())

    def are_recent(self) -> bool:
        """Return whether the kernel has killed a process in the last seconds; False where that is not known."""
        before = next((count for count in self._counts if count is not None), None)
        now = self._count()
        return before is not None and now is not None and now > before

    def _count(self) -> int | None:
        try:
            found = _COUNT.search(self._vmstat.read_bytes())
        except OSError:
            return None
        return int(found[1]) if found else None
