"""When an agent tells its frame: many agents at the same moment of a second, by the wall clock.

Whoever watches a thousand of them is then woken eight times a second, and reads what a hundred have said in one go,
rather than a thousand times: at a sixth less of its CPU (docs/console.md). And an agent takes its moment from a host
whose cores are full; in lock-step each worker waits for whichever is held up: so all are held up at once, and not one
after the other (docs/spikes/cost.md). Where clocks differ, the moments do too, and nothing is lost but that.

The probes in their tasks all read at one moment, for the same reason.
"""

from __future__ import annotations

PERIOD = 1.0
"""Seconds from frame to frame."""
READ = PERIOD - 0.1
"""When in each period probes read: shortly before the first agents tell their frames."""
TOGETHER = 125
"""Agents that tell at one moment: more would let a console's keys wait."""
MOMENTS = 8
"""Of a period; those of a larger cluster share them."""


def until_next(now: float, place: int) -> float:
    """Seconds from the Unix time `now` to the next moment of the agent at this place in its cluster.

    At least half a period: who is woken a little early, or late, does not tell twice.
    """
    left = PERIOD - (now - PERIOD * (place // TOGETHER % MOMENTS) / MOMENTS) % PERIOD
    return left if left >= PERIOD / 2 else left + PERIOD
