"""Shares of the newest minute that pass outside of the steps, by the buckets of goodput."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.console.analysis.run.goodput import Goodput

WINDOW, _LEAST = 60.0, 20.0
"""Seconds over which shares are measured, and their least number: a minute of steps of 5 s gives their share to
a tenth. Over less, one checkpoint would be a limit; over more, an old one still is."""
_OTHERWISE = ("start", "recovery", "standstill", "lost_progress")
"""Buckets of a start, a restart or a standstill, which end with the next steps."""


@dataclass(slots=True)
class TimeShares:
    """Watch of the growing sums of goodput."""

    _past: deque[tuple[float, Mapping[str, float]]] = field(default_factory=deque)

    def sample(self, goodput: Goodput) -> None:
        """Take in the sums up to the newest step."""
        settled = goodput.settled
        if settled is None or (self._past and settled[0] <= self._past[-1][0]):
            return
        self._past.append(settled)
        while len(self._past) > 2 and settled[0] - self._past[1][0] >= WINDOW:
            self._past.popleft()

    def since(self, now: float) -> Mapping[str, float]:
        """Return the share of each bucket, 0 to 1; empty where too little of the newest minute is known."""
        if len(self._past) < 2 or now - self._past[-1][0] > WINDOW / 2:
            return {}
        before, after = self._past[0][1], self._past[-1][1]
        grown = {bucket: after[bucket] - before[bucket] for bucket in after if bucket not in _OTHERWISE}
        total = sum(grown.values())
        return {bucket: seconds / total for bucket, seconds in grown.items()} if total >= _LEAST else {}
