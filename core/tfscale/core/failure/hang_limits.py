"""Limits from which on a time without a step is a hang: for the console's rule, and for the watchdog of agents."""

from __future__ import annotations

SHORTEST = 60.0
"""Seconds without a step up to which nothing is a hang for whose reason there is only an inference (chosen)."""
BUSY = 600.0
"""Seconds without a step up to which nothing is a hang while some task compiles, saves or evaluates (chosen)."""
GAPS = 5.0
"""Multiple of the longest normal gap between two steps after which it is a hang (chosen)."""


def hang_limit(longest_gap: float) -> float:
    """Return the seconds without a step from which on it is a hang, after a longest normal gap of so many seconds."""
    return max(SHORTEST, GAPS * longest_gap)
