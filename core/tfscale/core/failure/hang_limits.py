"""Limits of a time without a step: from which on it is a standstill, and a hang, for the console and for agents."""

from __future__ import annotations

SHORTEST_STANDSTILL = 2.0
"""Seconds without a step up to which a cluster counts as training: two frames, of which one may be late."""
USUAL_STEPS = 5.0
"""Multiple of the usual step up to which a cluster counts as training: a single step that is a few times as long is
common (the next file, garbage collection), and a rate of zero at each of them would be wrong."""
SHORTEST = 60.0
"""Seconds: a shorter stillness is no hang if its cause is only inferred.

Validations and checkpoints without a hook of their own take tens of seconds: below, they would be told as hangs; above,
a real hang is told as much later.
"""
BUSY = 600.0
"""Seconds: a shorter stillness is no hang while a task compiles, saves or evaluates.

Compiling a large graph by XLA takes minutes. Below, such a run would be told as stuck; above, one that hangs in its
evaluation goes unnoticed for as long.
"""
GAPS = 5.0
"""Number of the longest normal gaps between steps that a stillness must exceed to be a hang.

A gap before was the longest of few, and the next one may be some times as long: with 2, slow epochs would be hangs;
with more than 5, a run with gaps of a minute would hang for as many minutes before it is told.
"""


def hang_limit(longest_gap: float) -> float:
    """Return the seconds without a step that make a hang, by the longest normal gap in seconds."""
    return max(SHORTEST, GAPS * longest_gap)
