"""Goodput: where the time of a run went, in steps that count or in something else.

    goodput = time in steps never repeated, less the time their workers waited for data and for each other / wall time

Every second is in one bucket: that of what held up the whole cluster, not of what one task did meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tfscale.core.analysis.steps.phases import waits
from tfscale.core.analysis.steps.step_table import AlignedSteps, Floats
from tfscale.core.records import Activity, ActivityKind

PRODUCTIVE, PYTHON = "productive", "python"
BUCKETS = (
    PRODUCTIVE,
    "start",
    "compile",
    "input",
    "checkpoint",
    "evaluation",
    "lost_progress",
    "recovery",
    "stragglers",
    "unknown",
)
"""Buckets of time. `stragglers`: waiting for slower workers within a step. `recovery`: from a failure to the next step.
`lost_progress`: steps made a second time. `unknown`: time between steps that no activity explains."""

_KINDS = {
    ActivityKind.COMPILE: "compile",
    ActivityKind.CHECKPOINT: "checkpoint",
    ActivityKind.EVALUATION: "evaluation",
}

Interval = tuple[float, float]
"""(begin, end), Unix seconds."""
Attempt = tuple[int | str, ...]
"""The scope of step numbers: (generation, attempt, part), and the worker where each worker has numbers of its own."""

_SHORT_GAP, _SHORT_GAP_SHARE = 0.02, 0.05
"""Seconds, and share of the step, up to which the time between two steps belongs to the step (chosen)."""


@dataclass(slots=True)
class Goodput:
    """Sums of the buckets as a run goes on; every step is taken in once."""

    begin: float | None = None
    """Start of the first task, Unix seconds."""
    _spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BUCKETS, 0.0))
    _host: float = 0.0
    """Seconds of the productive ones in which the program's own Python held up its worker."""
    _reached: float | None = None
    """Unix seconds up to which all time is in a bucket."""
    _attempt: Attempt | None = None
    """Attempt of the newest steps."""
    _consumed: int = -1
    """The newest collective of that attempt that is in a bucket."""
    _highest: int = -1
    """The highest global step so far."""
    _activities: dict[tuple[str, ActivityKind, float], Activity] = field(default_factory=dict)

    def started(self, at: float | None) -> None:
        """Note that a task was started at `at`, Unix seconds; the run began with the first one."""
        if at is not None and self._reached is None:
            self.begin = at if self.begin is None else min(self.begin, at)

    def activities(self, task: str, activities: Iterable[Activity]) -> None:
        """Note what a task did instead of steps; an activity that has ended replaces itself as it was before."""
        for activity in activities:
            self._activities[task, activity.kind, activity.begin] = activity

    def _otherwise(self, attempt: Attempt) -> str:
        """Return the bucket of the time before the newest steps, as far as no activity explains it."""
        if self._attempt is None:
            return "start"
        return "unknown" if attempt == self._attempt else "recovery" if attempt[:2] != self._attempt[:2] else "start"

    def next_step(self, attempt: Attempt) -> int:
        """Return the first collective of this attempt that is not in a bucket."""
        return self._consumed + 1 if attempt == self._attempt else 0

    def steps(self, attempt: Attempt, fresh: AlignedSteps, newest_global: int | None) -> None:
        """Take in steps from `next_step` on that all workers have reported.

        `newest_global` is the global step of the last of them, None where the program does not count them.
        """
        if self._reached is not None:
            fresh = fresh.since(self._reached)
        if len(fresh) == 0 or self.begin is None:
            return
        otherwise = self._otherwise(attempt)
        begin = self.begin if self._reached is None else self._reached
        length = _length(fresh)
        self._add(self._gap(begin, float(fresh.end[0] - length[0]), otherwise))
        self._within(
            fresh, length, None if newest_global is None else newest_global - (fresh.sequence[-1] - fresh.sequence)
        )
        self._attempt, self._consumed, self._reached = attempt, int(fresh.sequence[-1]), float(fresh.end[-1])
        self._activities = {
            key: activity
            for key, activity in self._activities.items()
            if activity.end is None or activity.end > self._reached
        }

    @property
    def settled(self) -> tuple[float, Mapping[str, float]] | None:
        """The end of the newest step, Unix seconds, and the seconds by bucket up to it; None before a step.

        `python` is what of the steps is the program's own Python, and the time that nothing else explains.
        """
        if self._reached is None:
            return None
        spent = dict(self._spent)
        spent[PRODUCTIVE] -= self._host
        spent[PYTHON] = self._host + spent.pop("unknown")
        return self._reached, spent

    def spent(self, now: float) -> Mapping[str, float]:
        """Return seconds by bucket up to `now`; empty before anything started."""
        if self.begin is None:
            return {}
        spent = dict(self._spent)
        reached = self.begin if self._reached is None else self._reached
        for bucket, seconds in self._gap(reached, max(now, reached), "start" if self._reached is None else "unknown"):
            spent[bucket] += seconds
        return spent

    def share(self, now: float) -> float | None:
        """Return the goodput, 0 to 1; None before anything started."""
        spent = self.spent(now)
        total_seconds = sum(spent.values())
        return spent[PRODUCTIVE] / total_seconds if total_seconds > 0 else None

    def _within(self, fresh: AlignedSteps, length: Floats, numbers: Floats | None) -> None:
        """Take in steps, and the gaps between those that do not follow one another at once."""
        fetch = fresh.phases[2].mean(axis=1)
        waited = waits(fresh.reduce).mean(axis=1) if len(fresh.subjects) > 1 else np.zeros(len(fresh))
        repeated = np.zeros(len(fresh), bool) if numbers is None else numbers <= self._highest
        self._spent["lost_progress"] += float(length[repeated].sum())
        once = ~repeated
        self._spent["input"] += float(fetch[once].sum())
        self._spent["stragglers"] += float(waited[once].sum())
        self._spent[PRODUCTIVE] += float((length - fetch - waited)[once].sum())
        self._host += float(fresh.phases[1].mean(axis=1)[once].sum())
        gaps = np.diff(fresh.end) - length[1:]
        is_long = gaps > np.maximum(_SHORT_GAP_SHARE * length[1:], _SHORT_GAP)
        self._spent[PRODUCTIVE] += float(gaps[~is_long].sum())
        for row in np.flatnonzero(is_long):
            stop = float(fresh.end[row + 1] - length[row + 1])
            self._add(self._gap(float(fresh.end[row]), stop, "unknown"))
        if numbers is not None:
            self._highest = max(self._highest, int(numbers[-1]))

    def _add(self, parts: Iterable[tuple[str, float]]) -> None:
        for bucket, seconds in parts:
            self._spent[bucket] += seconds

    def _gap(self, begin: float, end: float, otherwise: str) -> list[tuple[str, float]]:
        """Return (bucket, seconds) of [begin, end] by the tasks' activities, the rest as `otherwise`."""
        if end <= begin:
            return []
        left, parts = [(begin, end)], []
        for kind, bucket in _KINDS.items():
            busy = [
                (activity.begin, end if activity.end is None else activity.end)
                for activity in self._activities.values()
                if activity.kind is kind
            ]
            rest = without(left, busy)
            parts.append((bucket, total(left) - total(rest)))
            left = rest
        return [*parts, (otherwise, total(left))]


def _length(window: AlignedSteps) -> Floats:
    """Return (k,) seconds of each step, the mean of its workers'."""
    return np.asarray(window.phases.sum(axis=0).mean(axis=1), dtype=np.float64)


def total(intervals: Sequence[Interval]) -> float:
    """Return the seconds of intervals that do not overlap."""
    return sum(end - begin for begin, end in intervals)


def without(intervals: Sequence[Interval], taken: Iterable[Interval]) -> list[Interval]:
    """Return the parts of `intervals` that no interval of `taken` covers."""
    left = list(intervals)
    for begin, end in taken:
        left = [
            part
            for low, high in left
            for part in ((low, min(high, begin)), (max(low, end), high))
            if part[1] > part[0] and (part[1] <= begin or part[0] >= end)
        ]
    return left
