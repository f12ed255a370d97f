"""Limits of a time without a step, for the console and for agents: at which length it is a standstill, and a hang."""

from __future__ import annotations

SHORTEST_STANDSTILL = 2.0
"""Seconds without a step up to which a cluster counts as training: two frames, of which one may be late."""
USUAL_STEPS = 5.0
"""Multiple of the usual step up to which a cluster counts as training. A single step of a few times the usual length
is common (the next file, garbage collection), and a rate of zero at each of them would be wrong."""
SHORTEST = 60.0
"""Seconds: a shorter stillness is no hang if its cause is only inferred.

Validations and checkpoints without a hook of their own take tens of seconds. A lower limit would call them hangs; with
a higher limit a real hang is named as much later.
"""
BUSY = 600.0
"""Seconds: a shorter stillness is no hang while a task compiles, saves or evaluates.

Compiling a large graph by XLA takes minutes. A lower limit would call such a run stuck; with a higher limit a run that
hangs in its evaluation goes unnoticed for as long.
"""
GAPS = 5.0
"""Multiple of the longest normal gap between steps that a stillness must exceed to be a hang.

The longest gap so far is the longest of few, and the next gap may be some times as long: with 2, slow epochs would be
hangs; with more than 5, a run with gaps of a minute would stand still for as many minutes before it is named.
"""


def hang_limit(longest_gap: float) -> float:
    """Return the seconds without a step that make a hang, by the longest normal gap in seconds."""
    return max(SHORTEST, GAPS * longest_gap)
