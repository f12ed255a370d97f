"""The newest steps of all tasks, lined up by their collective: who entered the all-reduce when, and what it cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tfscale.core.records import PHASES
from tfscale.core.task import Task

_FEWEST_KEPT, _MOST_KEPT = 120, 2_000
_SILENT = 3.0
"""Seconds by which a task's steps may end before those of the others without it being left behind."""
_ROWS = 100_000
"""Steps of all tasks together that are kept, where that is more than `_FEWEST_KEPT` of each."""
_COLLECTIVES = 16_384
"""Collectives within which a worker's step must come to count in what the network costs in a second."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Steps of several batches as columns, k in all."""

    attempts: list[tuple[int, int, int]]
    """(who, generation, attempt) of each batch."""
    lengths: NDArray[np.int64]
    """(batches,)"""
    who: NDArray[np.int64]
    """(k,) place of the task."""
    sequence: NDArray[np.int64]
    end: NDArray[np.float64]
    """(k,) on the console's clock."""
    phases: NDArray[np.float32]
    """(5, k) in the order of PHASES."""

    def only(self, kept: NDArray[np.bool_]) -> Rows:
        """Those of the steps; without what is known of batches."""
        return Rows([], self.lengths[:0], self.who[kept], self.sequence[kept], self.end[kept], self.phases[:, kept])


@dataclass(slots=True)
class Era:
    """The attempt that everybody is in: a new one of anybody counts its collectives anew."""

    generation: int = -1
    attempts: dict[int, int] = field(default_factory=dict)

    def follow(self, rows: Rows) -> tuple[Rows, bool]:
        """The rows that belong to the newest, and whether what came before them does not."""
        is_new = False
        for who, generation, attempt in rows.attempts:
            if (generation, attempt) == (self.generation, self.attempts.get(who)):
                continue
            if generation > self.generation or (
                generation == self.generation and attempt > self.attempts.get(who, attempt)
            ):
                self.generation, self.attempts, is_new = generation, {}, True
            if generation == self.generation:
                self.attempts[who] = max(attempt, self.attempts.get(who, attempt))
        wanted = [
            generation == self.generation and attempt == self.attempts.get(who)
            for who, generation, attempt in rows.attempts
        ]
        return (rows if all(wanted) else rows.only(np.repeat(wanted, rows.lengths))), is_new


@dataclass(frozen=True, slots=True)
class Lined:
    """k steps of n tasks side by side; NaN where a task has not told."""

    tasks: tuple[Task, ...]
    sequence: NDArray[np.int64]
    """(k,) in rising order."""
    end: NDArray[np.float64]
    """(k,) Unix seconds at which the first to tell left the collective."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds, in the order of PHASES."""


class LastSteps:
    """Keeps the newest steps as they came, and lines them up when asked."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self._kept = max(_FEWEST_KEPT, min(_MOST_KEPT, _ROWS // max(1, len(self._tasks))))
        self._chunks: deque[Rows] = deque()
        self._newest = -1
        self._newest_of = np.full(len(self._tasks), -1, np.int64)
        self._end_of = np.full(len(self._tasks), np.nan)

    @property
    def newest(self) -> int | None:
        """The newest collective that somebody has left, None before the first."""
        return self._newest if self._newest >= 0 else None

    @property
    def common(self) -> int | None:
        """The newest collective of which all who have told lately have told, None before the first."""
        if self._newest < 0:
            return None
        # Whose steps have no known end is not left behind.
        is_silent = self._end_of < np.fmax.reduce(self._end_of) - _SILENT
        return int(self._newest_of[(self._newest_of >= 0) & ~is_silent].min())

    @property
    def oldest(self) -> int | None:
        """The oldest one that is kept."""
        if not self._chunks:
            return None
        return max(self._newest - self._kept + 1, min(int(rows.sequence.min()) for rows in self._chunks))

    def told(self, sequence: int) -> int:
        """How many tasks have told of this collective, or of a later one."""
        return int((self._newest_of >= sequence).sum())

    def add(self, rows: Rows) -> None:
        """Take in steps, at least one; those of one task in their order."""
        self._newest = max(self._newest, int(rows.sequence.max()))
        np.maximum.at(self._newest_of, rows.who, rows.sequence)
        self._end_of[rows.who] = rows.end
        oldest = self._newest - self._kept
        while self._chunks and int(self._chunks[0].sequence.max()) <= oldest:
            self._chunks.popleft()
        recent = rows.sequence > oldest
        if recent.any():
            self._chunks.append(rows if recent.all() else rows.only(recent))

    def clear(self) -> None:
        """What came so far is of an attempt that is over."""
        self._chunks.clear()
        self._newest = -1
        self._newest_of[:], self._end_of[:] = -1, np.nan

    def lined(self, last: int, count: int) -> Lined:
        """The `count` steps up to collective `last`, of the tasks that have told of one of them."""
        first = last - count + 1
        found = [rows.only((rows.sequence >= first) & (rows.sequence <= last)) for rows in self._chunks]
        has_told = np.zeros(len(self._tasks), bool)
        for rows in found:
            has_told[rows.who] = True
        who = np.flatnonzero(has_told)
        phases = np.full((len(PHASES), count, len(who)), np.nan, np.float32)
        end = np.full(count, np.nan)
        for rows in found:
            row = rows.sequence - first
            phases[:, row, np.searchsorted(who, rows.who)] = rows.phases
            np.fmin.at(end, row, rows.end)
        told = np.flatnonzero(~np.isnan(end))
        tasks = tuple(self._tasks[index] for index in who.tolist())
        return Lined(tasks, told + first, end[told], phases[:, told])


class Transfers:
    """What the network costs everybody, second by second: the mean, over the steps that ended in it, of the shortest
    time that a task spent in the collective."""

    def __init__(self) -> None:
        self._shortest = np.full(_COLLECTIVES, np.nan, np.float32)
        self._end = np.full(_COLLECTIVES, np.nan)
        self._newest = -1
        self._means: dict[int, float] = {}

    def add(self, rows: Rows) -> None:
        """Take in steps, at least one."""
        self._make_room(int(rows.sequence.min()), int(rows.sequence.max()))
        if int(rows.sequence.min()) <= self._newest - _COLLECTIVES:
            rows = rows.only(rows.sequence > self._newest - _COLLECTIVES)
        rows = rows if (known := np.isfinite(rows.end)).all() else rows.only(known)
        place = rows.sequence % _COLLECTIVES
        np.fmin.at(self._shortest, place, rows.phases[-1])
        self._end[place] = rows.end
        if len(rows.end):
            self._average(int(rows.end.min()))

    def clear(self) -> None:
        """The collectives are counted anew."""
        self._newest = -1
        self._shortest[:], self._end[:] = np.nan, np.nan

    def series(self, last: int, span: int) -> NDArray[np.float32]:
        """(span,) seconds a step in the seconds before `last`; NaN unknown."""
        return np.array([self._means.get(second, np.nan) for second in range(last - span, last)], np.float32)

    def forget(self, before: int) -> None:
        """Leave out what is older."""
        self._means = {second: mean for second, mean in self._means.items() if second >= before}

    def _make_room(self, first: int, last: int) -> None:
        begin = max(first if self._newest < 0 else self._newest + 1, last - _COLLECTIVES + 1)
        if begin <= last:
            fresh = np.arange(begin, last + 1) % _COLLECTIVES
            self._shortest[fresh], self._end[fresh] = np.nan, np.nan
            self._newest = last

    def _average(self, since: int) -> None:
        """Anew for each second of which there may be more steps now."""
        known = np.flatnonzero((self._end >= since) & ~np.isnan(self._shortest))
        if len(known):
            # Clocks that were set lie decades apart: there is no counting from the first to the last.
            seconds, within = np.unique(self._end[known].astype(np.int64), return_inverse=True)
            means = np.bincount(within, self._shortest[known]) / np.bincount(within)
            self._means.update(zip(seconds.tolist(), means.tolist(), strict=True))
