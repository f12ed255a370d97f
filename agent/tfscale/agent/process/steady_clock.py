"""Clock of this host that nobody sets."""

from __future__ import annotations

import time


def steady_time() -> float:
    """Return the seconds since the host's boot, in which a suspended host counts, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
