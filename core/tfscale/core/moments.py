"""When an agent tells its frame: many agents at the same few moments of a second, by the wall clock.

Whoever watches a thousand of them is then woken eight times a second, and reads what a hundred have said in one go,
rather than a thousand times: at a sixth less of its CPU (docs/console.md). The probe in the agent's task reads shortly
before, so that each frame has the newest steps. Where clocks differ, the moments do too, and nothing is lost but that.
"""

from __future__ import annotations

PERIOD = 1.0
"""Seconds from frame to frame."""
MOMENTS = 8
"""Of a period: fewer would let a console's keys wait for more."""


def until_next(now: float, place: int) -> float:
    """Seconds from the Unix time `now` to the next moment of the agent at this place in its cluster.

    At least half a period: who is woken a little early, or late, does not tell twice.
    """
    left = PERIOD - (now - PERIOD * (place % MOMENTS) / MOMENTS) % PERIOD
    return left if left >= PERIOD / 2 else left + PERIOD
