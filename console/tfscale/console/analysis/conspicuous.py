"""Conspicuous tasks: so slow or so fast of late that nobody is called healthy, though there is no diagnosis."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tfscale.console.analysis.stragglers.straggler_rule import Suspect

_ON, _OFF = 1.5, 1.25
"""Ratios from which on a task is conspicuous, and below which it is no longer. A few steps differ by a third by noise
alone, and `healthy` beside a worker of half the speed would be false; with one limit the headline would alternate."""
_HOLD = 5.0
"""Seconds for which a task is still told after it was conspicuous: as long as the newest steps last."""
_LASTS = 15.0
"""Seconds from which on tasks are told to be faster than most: noise that lasts for some steps ends sooner."""
_FEWEST = 0.25
"""Least share of the tasks that must be faster: one quick host among many is no sign that the others are slow."""


class Conspicuous(NamedTuple):
    """A task that is, or was a moment ago, conspicuous."""

    task: str
    ratio: float | None
    """Newest ratio of its own work to its peers'; None where it looks slow over a longer time alone."""
    ago: float = 0.0
    """Seconds since it was conspicuous for the last time; 0: it is now."""


class Faster(NamedTuple):
    """Tasks that are much faster than most of their peers: which of both are out of order is not known."""

    tasks: tuple[str, ...]
    times: float
    """The others' own work over theirs."""
    others: int
    seconds: float
    """Time for which all of these have been so fast."""

    @property
    def is_sure(self) -> bool:
        return self.seconds >= _LASTS


class ConspicuousWatch:
    """Memory of the newest conspicuous task, and of those that are faster than most."""

    def __init__(self) -> None:
        self._newest: tuple[Conspicuous, float] | None = None
        self._faster: dict[str, float] = {}
        """Time from which on each task has been faster than most, Unix seconds."""

    def faster(self, tasks: Collection[str], ratios: Mapping[str, float], now: float) -> Faster | None:
        """Return those of the tasks that leave all others far behind at `now`; None without any, or where they are few.

        Where more than half are slow, the slow ones are the usual ones.
        """
        known = {name: ratios[name] for name in tasks if ratios.get(name)}
        fast = [name for name, ratio in known.items() if ratio * (_OFF if name in self._faster else _ON) <= 1]
        self._faster = {name: self._faster.get(name, now) for name in fast}
        if not _FEWEST * len(known) <= len(fast) < len(known) / 2:
            return None
        times, seconds = 1 / max(known[name] for name in fast), now - max(self._faster.values())
        return Faster(tuple(fast), times, len(known) - len(fast), seconds)

    def judge(
        self, tasks: Collection[str], ratios: Mapping[str, float], suspect: Suspect | None, now: float
    ) -> Conspicuous | None:
        """Return the conspicuous one of these tasks at `now`, Unix seconds; None without one."""
        if not tasks:
            self._newest = None
            return None
        slowest = max(tasks, key=lambda name: ratios.get(name, 0.0))
        if self._newest is not None and not 0 <= now - self._newest[1] <= _HOLD:
            self._newest = None
        before = self._newest[0].task if self._newest and self._newest[0].ratio is not None else None
        if ratios.get(slowest, 0.0) >= (_OFF if slowest == before else _ON):
            self._newest = Conspicuous(slowest, ratios[slowest]), now
        elif suspect is not None:
            self._newest = Conspicuous(suspect.subject, None), now
        if self._newest is None:
            return None
        newest, at = self._newest
        return newest._replace(ago=now - at)
