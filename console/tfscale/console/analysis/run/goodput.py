"""Goodput: where the time of a run went, in steps that count or in something else.

    goodput = time in steps never repeated, less the time their workers waited for data and for each other / wall time

Every second is in one bucket: that of what held up the whole cluster, not of what one task did meanwhile. If one task
alone does something else (the chief writes a checkpoint), the others wait for it in their next all-reduce: that is
no straggler's time, but a checkpoint's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats, Integers
from tfscale.console.analysis.steps.phases import waits
from tfscale.core.records.probe_status import Activity, ActivityKind

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
    "standstill",
    "stragglers",
    "unknown",
)
"""Buckets of time. `stragglers`: waiting for slower workers within a step. `recovery`: from a failure to the next
step. `standstill`: time without a step that a finding explains, such as a hang or a host that is cut off.
`lost_progress`: repeated steps. `unknown`: time between steps that no activity explains, or is idle."""

_KINDS = {
    ActivityKind.COMPILE: "compile",
    ActivityKind.CHECKPOINT: "checkpoint",
    ActivityKind.EVALUATION: "evaluation",
}
"""Buckets of activities that explain a time without steps; of several at once the first counts."""

Interval = tuple[float, float]
"""(begin, end), Unix seconds."""
Attempt = tuple[int | str, ...]
"""Scope of step numbers: (generation, attempt, part), and the worker where each worker has its own numbers."""

_CLOCK_SET = 30.0
"""Seconds by which the end of a counted step moves at least where a clock was set: as its agent's frames are judged."""
_SHORT_GAP, _SHORT_GAP_SHARE = 0.02, 0.05
"""Seconds, and share of the step, up to which the time between two steps belongs to the step: stamps of both ends
are some milliseconds apart, and so short a gap needs no reason."""


@dataclass(slots=True)
class Goodput:
    """Sums of the buckets as a run goes on; every step is taken in once."""

    begin: float | None = None
    """Start of the first task, Unix seconds."""
    _spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BUCKETS, 0.0))
    _host: float = 0.0
    """Productive seconds in which the program's own Python held up its worker."""
    _reached: float | None = None
    """Unix seconds up to which all time is in a bucket."""
    _attempt: Attempt | None = None
    """Attempt of the newest steps."""
    _consumed: int = -1
    """Newest collective of that attempt whose step is counted in a bucket."""
    _highest: int = -1
    """The highest global step so far."""
    _activities: dict[tuple[str, ActivityKind, float], Activity] = field(default_factory=dict)
    _standstills: dict[float, tuple[str, float]] = field(default_factory=dict)
    """Times without a step that a finding explains: (bucket, end) by begin, Unix seconds."""

    def note_standstill(self, bucket: str, begin: float, end: float) -> None:
        """Charge a bucket with the time from `begin` to `end`, Unix seconds, in which no step is made."""
        self._standstills[begin] = bucket, end

    def note_start(self, at: float | None) -> None:
        """Take in the start of a task at `at`, Unix seconds; the first start is the begin of the run."""
        if at is not None and self._reached is None:
            self.begin = at if self.begin is None else min(self.begin, at)

    def note_activities(self, task: str, activities: Iterable[Activity]) -> None:
        """Take in a task's activities; an ended activity replaces its earlier, open form."""
        for activity in activities:
            self._activities[task, activity.kind, activity.begin] = activity

    def _otherwise(self, attempt: Attempt) -> str:
        """Return the bucket of the time before the newest steps that no activity explains."""
        if self._attempt is None:
            return "start"
        return "unknown" if attempt == self._attempt else "recovery" if attempt[:2] != self._attempt[:2] else "start"

    def next_step(self, attempt: Attempt) -> int:
        """Return the first collective of this attempt that is not in a bucket."""
        return self._consumed + 1 if attempt == self._attempt else 0

    def follow_clock(self, known: AlignedSteps) -> float:
        """Move all kept times where the newest counted step, the first of these, has moved; return by how much."""
        if self._reached is None or len(known) == 0 or known.sequence[0] != self._consumed:
            return 0.0
        set_by = float(known.end[0]) - self._reached
        return self._move(set_by) if abs(set_by) > _CLOCK_SET else 0.0

    def add_steps(self, attempt: Attempt, fresh: AlignedSteps, newest_global: int | None) -> float:
        """Take in steps from `next_step` on that all workers have reported; return the seconds by which clocks moved.

        `newest_global` is the global step of the last, None where the program does not count them.
        """
        if len(fresh) == 0 or self.begin is None:
            return 0.0
        fresh = fresh.in_order()
        set_by = self._begin_again(fresh)
        if self._reached is not None and len(fresh := fresh.since(self._reached)) == 0:
            return set_by
        if self._reached is None and fresh.sequence[0] > WARM_UP_STEPS:
            # Who watches a run from its middle on does not know what it did before: that is not its start.
            self.begin = float(fresh.end[0] - fresh.phases[:, 0].sum(axis=0).mean())
        spans = _Spans.of(fresh, self.begin if self._reached is None else self._reached)
        self._explain(spans, self._otherwise(attempt), attempt != self._attempt and fresh.sequence[0] <= WARM_UP_STEPS)
        self._sum_up(
            fresh, spans, None if newest_global is None else newest_global - (fresh.sequence[-1] - fresh.sequence)
        )
        self._attempt, self._consumed, self._reached = attempt, int(fresh.sequence[-1]), float(fresh.end[-1])
        self._activities = {
            key: activity
            for key, activity in self._activities.items()
            if activity.end is None or activity.end > self._reached
        }
        self._standstills = {
            begin: (bucket, end) for begin, (bucket, end) in self._standstills.items() if end > self._reached
        }
        return set_by

    def _begin_again(self, fresh: AlignedSteps) -> float:
        """Move all kept times back where all new steps end before them, and return by how much: the clocks were set."""
        if self._reached is None or fresh.end[-1] >= self._reached:
            return 0.0
        return self._move(float(fresh.end[0] - fresh.phases[:, 0].sum(axis=0).mean()) - self._reached)

    def _move(self, seconds: float) -> float:
        self.begin, self._reached = (self.begin or 0.0) + seconds, (self._reached or 0.0) + seconds
        return seconds

    @property
    def settled(self) -> tuple[float, Mapping[str, float]] | None:
        """End of the newest step, Unix seconds, and the seconds by bucket up to it; None before a step.

        `python` is the steps' share of the program's own Python, and the unexplained time.
        """
        if self._reached is None:
            return None
        spent = dict(self._spent)
        spent[PRODUCTIVE] -= self._host
        spent[PYTHON] = self._host + spent.pop("unknown")
        return self._reached, spent

    @property
    def counted(self) -> Mapping[str, float]:
        """Seconds by bucket up to the end of the newest step, which only grow; empty before a step."""
        return {} if self._reached is None else dict(self._spent)

    def spent(self, now: float) -> Mapping[str, float]:
        """Return seconds by bucket up to `now`; empty before anything started."""
        if self.begin is None:
            return {}
        spent = dict(self._spent)
        reached = self.begin if self._reached is None else self._reached
        done = self._activity_seconds(reached, max(now, reached))
        for bucket, seconds in done.items():
            spent[bucket] += seconds
        spent["start" if self._reached is None else "unknown"] += max(now - reached, 0.0) - sum(done.values())
        return spent

    def share(self, now: float) -> float | None:
        """Return the goodput, 0 to 1; None before anything started."""
        spent = self.spent(now)
        total_seconds = sum(spent.values())
        return spent[PRODUCTIVE] / total_seconds if total_seconds > 0 else None

    def _explain(self, spans: _Spans, otherwise: str, is_new: bool) -> None:
        """Divide the time outside of steps among the buckets of the known activities; the rest goes into `unknown`.

        Unexplained time before the first step goes into `otherwise`; if that step `is_new`, an attempt's first, so does
        its wait: some worker came later than others. Short unexplained times belong to the step.
        """
        is_long = spans.is_long
        for row in np.flatnonzero(is_long | self._is_interrupted(spans)).tolist():
            done = self._activity_seconds(float(spans.begin[row]), float(spans.end[row]))
            known = sum(done.values())
            outside = spans.take_outside(row, math.inf if is_long[row] else known)
            # An activity in the background goes on during the steps.
            share = min(1.0, outside / known) if known > 0 else 0.0
            for bucket, seconds in done.items():
                self._spent[bucket] += seconds * share
            # A worker that is stuck within a step makes this step, and the others' wait in it, as long.
            stood = done.get("standstill", 0.0) * (1 - share)
            self._spent["standstill"] += spans.take_within(row, stood)
            self._spent[otherwise if row == 0 else "unknown"] += outside - known * share
        if is_new:
            self._spent[otherwise] += spans.take_wait(0)

    def _is_interrupted(self, spans: _Spans) -> NDArray[np.bool_]:
        """Return (k,) True where an activity begins or ends in the span of a step."""
        times = [(each.begin, math.inf if each.end is None else each.end) for each in self._activities.values()]
        times += [(begin, end) for begin, (_, end) in self._standstills.items()]
        first, last = np.searchsorted(spans.end, np.array(times or [(math.inf, math.inf)]).T)
        found = np.zeros(len(spans.end) + 1, bool)
        found[first] = found[last] = True
        return found[:-1]

    def _sum_up(self, fresh: AlignedSteps, spans: _Spans, numbers: Integers | None) -> None:
        """Put the remaining time of the steps into buckets; `numbers` are their global steps."""
        repeated = np.zeros(len(fresh), bool) if numbers is None else numbers <= self._highest
        once = ~repeated
        within = spans.end - spans.begin - spans.taken
        fetch = np.minimum(fresh.phases[2].mean(axis=1), np.maximum(within - spans.waited, 0.0))
        self._spent["lost_progress"] += float(within[repeated].sum())
        self._spent["input"] += float(fetch[once].sum())
        self._spent["stragglers"] += float(spans.waited[once].sum())
        self._spent[PRODUCTIVE] += float((within - fetch - spans.waited)[once].sum())
        self._host += float(fresh.phases[1].mean(axis=1)[once].sum())
        if numbers is not None:
            self._highest = max(self._highest, int(numbers[-1]))

    def _activity_seconds(self, begin: float, end: float) -> dict[str, float]:
        """Return the seconds of [begin, end] in which some task did something else, by bucket."""
        left: list[Interval] = [(begin, end)] if end > begin else []
        done: dict[str, float] = {}
        explained = [(bucket, self._busy(kind, end)) for kind, bucket in _KINDS.items()]
        for begun, (bucket, until) in self._standstills.items():
            explained.append((bucket, [(begun, until)]))
        for bucket, busy in [*explained, ("unknown", self._busy(ActivityKind.IDLE, end))]:
            rest = without(left, busy)
            done[bucket] = done.get(bucket, 0.0) + total(left) - total(rest)
            left = rest
        return done

    def _busy(self, kind: ActivityKind, end: float) -> list[Interval]:
        """Return when tasks had activities of a kind; an activity that still lasts counts up to `end`, Unix seconds."""
        activities = (activity for activity in self._activities.values() if activity.kind is kind)
        return [(each.begin, end if each.end is None else each.end) for each in activities]


@dataclass(slots=True)
class _Spans:
    """(k,) seconds of steps: each from the end of the step before to its own end, and the parts taken out of it."""

    begin: Floats
    end: Floats
    length: Floats
    """Seconds in phases, the mean of the workers'."""
    waited: Floats
    """Seconds of the steps in which a worker waits for a slower worker, the mean of all workers."""
    outside: Floats
    """Seconds outside of the phases, of the worker with most of them: the others wait for it in the all-reduce."""
    taken: Floats
    """Seconds that are in a bucket already."""

    @classmethod
    def of(cls, steps: AlignedSteps, begin: float) -> _Spans:
        """Return the spans of steps, the first of which begins at `begin`, Unix seconds."""
        lengths = steps.phases.sum(axis=0, dtype=np.float64)
        waited = waits(steps.reduce).mean(axis=1, dtype=np.float64) if len(steps.subjects) > 1 else np.zeros(len(steps))
        begins = np.concatenate([[begin], steps.end[:-1]])
        outside = np.maximum(steps.end - begins - lengths.min(axis=1), 0.0)
        return cls(begins, steps.end, lengths.mean(axis=1), waited, outside, np.zeros(len(steps)))

    @property
    def is_long(self) -> NDArray[np.bool_]:
        """(k,) True where the time outside of the phases is too long to belong to the step."""
        return np.asarray(self.outside > np.maximum(_SHORT_GAP_SHARE * self.length, _SHORT_GAP))

    def take_outside(self, row: int, most: float = math.inf) -> float:
        """Take up to `most` seconds outside of the phases out of the step, and return the number taken.

        If one task of n does something alone, 1/n of its time is between the steps in the mean of the workers, and
        (n-1)/n in the others' wait.
        """
        between = max(float(self.end[row] - self.begin[row] - self.length[row]), 0.0)
        waited = min(max(float(self.outside[row]) - between, 0.0), float(self.waited[row]))
        part = min(1.0, most / (between + waited)) if between + waited > 0 else 0.0
        between, waited = part * between, part * waited
        self.waited[row] -= waited
        self.taken[row] += between + waited
        return between + waited

    def take_within(self, row: int, most: float) -> float:
        """Take up to `most` seconds out of a step and its wait, and return the number taken."""
        seconds = max(0.0, min(most, float(self.end[row] - self.begin[row] - self.taken[row])))
        self.waited[row] -= min(seconds, float(self.waited[row]))
        self.taken[row] += seconds
        return seconds

    def take_wait(self, row: int) -> float:
        """Take the rest of the wait out of the step, and return its seconds."""
        seconds = float(self.waited[row])
        self.waited[row] = 0.0
        self.taken[row] += seconds
        return seconds


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
