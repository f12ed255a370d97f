"""Schedule of reports: when each agent sends its frame, and when probes read, by the wall clock.

Many agents send at the same time. A console of a thousand agents is then woken eight times a second, and handles the
frames of a hundred agents in one go, which takes a sixth less CPU than to handle each frame by itself
(docs/how-it-works/console.md).

An agent also takes its time from a host whose cores are full, and a step that workers make together waits for each
worker that is held up. So all workers are held up at once, and not one after the other (docs/how-it-works/stamps.md).
For the same reason all probes read at one time. Where the clocks of hosts differ, the times differ too, and only this
advantage is lost.
"""

from __future__ import annotations

PERIOD = 1.0
"""Seconds from frame to frame."""
READ_OFFSET = PERIOD - 0.1
"""Seconds from the start of a period to the reads of probes: shortly before the first agents send their frames."""
AGENTS_PER_SLOT = 125
"""Number of agents that send at the same time; with more of them a console would answer keys late."""
SLOTS = 8
"""Number of moments within a period at which agents send; more than 1,000 agents share these moments."""


def until_next(now: float, position: int) -> float:
    """Return the seconds from the Unix time `now` to the next frame of the agent at `position` in its cluster."""
    return until_offset(now, PERIOD * (position // AGENTS_PER_SLOT % SLOTS) / SLOTS, PERIOD)


def until_offset(now: float, offset: float, period: float) -> float:
    """Return the seconds from the Unix time `now` to the next time that is `offset` seconds into a period.

    The result is at least half a period: a caller that is woken a little early, or late, does not run twice in one
    period.
    """
    left = period - (now - offset) % period
    return left if left >= period / 2 else left + period
