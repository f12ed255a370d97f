"""Outages of the network, and the crashes that followed from them.

TensorFlow's tasks end some seconds after a peer's network has gone, each with an error about another task that has
died. Nobody has died.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.tasks.crashes import CLOCK_DOUBT
from tfscale.core.log_clues import PEER
from tfscale.core.records import Diagnosis
from tfscale.core.text import clock, listing

NETWORK = "network"
"""Reason of a crash (`evidence.reason`) that followed from an outage."""
AFTER = 60.0
"""Seconds after an outage in which tasks may still end of it (chosen: TensorFlow notices at its next message)."""
_KEPT = 10
_OF_NETWORK = re.compile(r"unavailable|deadline|connection|timed out|socket", re.IGNORECASE)


@dataclass(slots=True)
class Outage:
    """Time in which a host was cut off; `end` is None while it lasts."""

    task: str
    begin: float
    end: float | None = None

    def explains(self, at: float) -> bool:
        """Decide whether a task that ended at this time may have ended of it."""
        return self.begin - CLOCK_DOUBT <= at and (self.end is None or at <= self.end + AFTER)


@dataclass(slots=True)
class Outages:
    """The newest outages."""

    _known: list[Outage] = field(default_factory=list)

    def note(self, cut: Iterable[Diagnosis], now: float) -> None:
        """Take in who is cut off now."""
        begin = {each.subject: each.begin for each in cut}
        for outage in self._known:
            if outage.end is None and outage.task not in begin:
                outage.end = now
        lasting = {outage.task for outage in self._known if outage.end is None}
        self._known += [Outage(task, at) for task, at in begin.items() if task not in lasting]
        self._known = self._known[-_KEPT:]

    def explain(self, crashes: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Return the crashes, all those that followed from one outage as one, which is told as such."""
        told: list[Diagnosis] = []
        followed: dict[int, list[Diagnosis]] = {}
        for crash in crashes:
            number = self._outage_of(crash)
            if number is None:
                told.append(crash)
            else:
                followed.setdefault(number, []).append(crash)
        return told + [_describe(self._known[number], all_of_it) for number, all_of_it in followed.items()]

    def _outage_of(self, crash: Diagnosis) -> int | None:
        if not _is_of_network(crash):
            return None
        numbers = range(len(self._known))
        return next((number for number in reversed(numbers) if self._known[number].explains(crash.begin)), None)


def _describe(outage: Outage, crashes: Sequence[Diagnosis]) -> Diagnosis:
    first = min(crashes, key=lambda crash: crash.begin)
    ended = sorted({name for crash in crashes for name in _ended(crash)})
    gone = (
        f"{outage.task}'s network is gone since {clock(outage.begin)}"
        if outage.end is None
        else f"{outage.task}'s network was gone from {clock(outage.begin)} to {clock(outage.end)}"
    )
    evidence = {
        **first.evidence,
        "followers": ", ".join(ended),
        "reason": NETWORK,
        "outage_begin": outage.begin,
        "outage_end": outage.end,
    }
    return replace(first, subject=outage.task, sentence=f"{gone}; {listing(ended)} ended of that", evidence=evidence)


def _ended(crash: Diagnosis) -> list[str]:
    """Return the tasks that ended; one that the others only took for dead has left no exit."""
    has_exit = crash.evidence.get("code") is not None or crash.evidence.get("signal") is not None
    followers = crash.evidence.get("followers")
    return [*([crash.subject] if has_exit else []), *(followers.split(", ") if isinstance(followers, str) else [])]


def _is_of_network(crash: Diagnosis) -> bool:
    """Decide whether the log of the first task to end blames another task or a connection."""
    reason, line = crash.evidence.get("reason"), crash.evidence.get("line")
    return reason == PEER or (reason == "exception" and isinstance(line, str) and bool(_OF_NETWORK.search(line)))
