"""The steps of all subjects, kept as columns and lined up by (generation, collective sequence).

Row i of every column is collective `base + i`, so that lining up costs nothing: a step is written where it belongs.
NaN is unknown: not reported, not yet reported, or reported as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tfscale.core.records import PHASES, StepBatch

Floats = NDArray[np.floating]

KEEP_SECONDS = 30.0
"""How far back the steps are kept."""
CELLS = 4_000_000
"""Bound on rows x subjects, so that a thousand fast workers keep less time instead of more memory."""
_FEWEST_ROWS, _MOST_ROWS = 1024, 16_384


@dataclass(frozen=True, slots=True)
class Aligned:
    """Steps that every one of `subjects` has reported whole, k of them in order, for n subjects."""

    subjects: tuple[str, ...]
    sequence: NDArray[np.int64]
    """(k,)"""
    end: NDArray[np.float64]
    """(k,) Unix seconds at which the first subject left the collective, on its host's clock."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds, in the order of PHASES."""
    meets: bool = True
    """Whether anybody reduces anything: where nobody does, `reduce` is 0, and nobody waits for anybody."""

    @property
    def lag(self) -> Floats:
        """(k, n) seconds from leaving one collective to entering the next."""
        return np.asarray(self.phases[:-1].sum(axis=0))

    @property
    def reduce(self) -> Floats:
        """(k, n) seconds in the collective."""
        return np.asarray(self.phases[-1])

    def __len__(self) -> int:
        return len(self.sequence)

    def last(self, rows: int) -> Aligned:
        """The newest `rows` of these steps."""
        return self._from(max(0, len(self) - rows))

    def since(self, at: float) -> Aligned:
        """The steps that ended after `at`."""
        return self._from(int(np.searchsorted(self.end, at, side="right")))

    def after(self, sequence: int) -> Aligned:
        """The steps after this collective."""
        return self._from(int(np.searchsorted(self.sequence, sequence, side="right")))

    def _from(self, start: int) -> Aligned:
        return Aligned(self.subjects, self.sequence[start:], self.end[start:], self.phases[:, start:], self.meets)


@dataclass(slots=True)
class _Column:
    """What is known of one subject besides its steps."""

    position: int
    attempt: int = 0
    newest: int = -1
    global_step: int | None = None


@dataclass(slots=True)
class StepTable:
    """The newest steps of one generation, for subjects that meet in the same collective."""

    keep: float = KEEP_SECONDS
    cells: int = CELLS
    generation: int = -1
    base: int = 0
    _columns: dict[str, _Column] = field(default_factory=dict)
    _end: NDArray[np.float64] = field(default_factory=lambda: np.full((0, 0), np.nan))
    _phases: NDArray[np.float32] = field(default_factory=lambda: np.full((len(PHASES), 0, 0), np.nan, np.float32))

    def add(self, batch: StepBatch) -> None:
        """Write a batch where it belongs. Older generations and attempts, and steps too old to keep, are left out."""
        if len(batch.sequence) == 0 or not self._is_current(batch):
            return
        column = self._column(batch.subject)
        column.attempt = batch.attempt
        sequence = np.asarray(batch.sequence, dtype=np.int64)
        self._make_room(int(sequence.min()), int(sequence.max()))
        kept = np.flatnonzero(sequence >= self.base)
        rows = sequence[kept] - self.base
        self._end[rows, column.position] = np.asarray(batch.end, dtype=np.float64)[kept]
        for plane, name in zip(self._phases, PHASES, strict=True):
            values = getattr(batch, name)
            plane[rows, column.position] = np.asarray(values, dtype=np.float32)[kept] if len(values) else np.nan
        self._remember(column, batch, sequence)

    def attempt(self, subject: str) -> tuple[int, int]:
        """(generation, attempt) of the subject's steps here."""
        return self.generation, self._columns[subject].attempt

    def newest(self, subject: str) -> int | None:
        """The sequence of the subject's newest step, None before its first."""
        column = self._columns.get(subject)
        return column.newest if column and column.newest >= 0 else None

    def global_step(self, subject: str) -> int | None:
        """The subject's newest global step, None where it does not say."""
        column = self._columns.get(subject)
        return column.global_step if column else None

    def subjects(self) -> tuple[str, ...]:
        """Everyone who has reported a step in this generation."""
        return tuple(name for name, column in self._columns.items() if column.newest >= 0)

    def aligned(self, subjects: Sequence[str], first: int = 0) -> Aligned:
        """The steps from collective `first` on that all of `subjects` have reported whole."""
        positions = [self._columns[subject].position for subject in subjects]
        start = max(0, first - self.base)
        stop = min((self._columns[subject].newest for subject in subjects), default=-1) - self.base + 1
        planes = self._phases[:, start : max(start, stop), :][:, :, positions]
        meets = not np.isnan(planes[-1]).all()
        if not meets:
            planes = np.concatenate([planes[:-1], np.zeros_like(planes[-1:])])
        rows = np.flatnonzero(np.isfinite(planes.sum(axis=0)).all(axis=1))
        if len(rows) < planes.shape[1]:
            planes = planes[:, rows]
        ends = self._end[start + rows, positions[0]] if positions else np.empty(0)
        return Aligned(tuple(subjects), rows + (self.base + start), ends, planes, meets)

    def recent(self, subject: str, seconds: float, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """((k,) ends, (5, k) phases) of one subject's newest steps: `seconds` of them, but `steps` at least."""
        column = self._columns[subject]
        stop = column.newest - self.base + 1
        ends = self._end[:stop, column.position]
        known = np.flatnonzero(ends >= ends[-1] - max(seconds, 0.0)) if stop > 0 else np.empty(0, np.int64)
        start = min(int(known[0]), max(0, stop - steps)) if len(known) else 0
        rows = start + np.flatnonzero(np.isfinite(ends[start:]))
        return ends[rows], self._phases[:, rows, column.position]

    def _is_current(self, batch: StepBatch) -> bool:
        column = self._columns.get(batch.subject)
        if batch.generation < self.generation or (
            column is not None and batch.generation == self.generation and batch.attempt < column.attempt
        ):
            return False
        if batch.generation > self.generation or (column is not None and batch.attempt > column.attempt):
            self._reset(batch.generation)
        return True

    def _reset(self, generation: int) -> None:
        """A new attempt counts its collectives anew, so that older steps of anybody no longer line up with it."""
        self.generation = generation
        self._end = np.full((0, 0), np.nan)
        self._phases = np.full((len(PHASES), 0, 0), np.nan, np.float32)
        for column in self._columns.values():
            column.newest, column.global_step = -1, None

    def _column(self, subject: str) -> _Column:
        if subject not in self._columns:
            self._columns[subject] = _Column(position=len(self._columns))
        return self._columns[subject]

    def _remember(self, column: _Column, batch: StepBatch, sequence: NDArray[np.int64]) -> None:
        newest = int(sequence.argmax())
        if sequence[newest] > column.newest:
            column.newest = int(sequence[newest])
            column.global_step = int(batch.global_step[newest]) if len(batch.global_step) else column.global_step

    def _make_room(self, first: int, last: int) -> None:
        rows, width = self._end.shape
        if rows == 0:
            self.base = first
        if last < self.base + rows and len(self._columns) <= width:
            return
        wide = width if len(self._columns) <= width else max(2 * width, len(self._columns))
        limit = min(max(_FEWEST_ROWS, self.cells // wide), _MOST_ROWS)
        base = max(self._oldest_kept(), last + 1 - limit * 3 // 4)
        self._move(base, min(limit, max(_FEWEST_ROWS, 2 * (last + 1 - base))), wide)

    def _oldest_kept(self) -> int:
        """The first collective within `keep` seconds of the newest."""
        if self._end.size == 0 or not np.isfinite(self._end).any():
            return self.base
        newest = np.nanmax(self._end)
        recent = np.flatnonzero((self._end >= newest - self.keep).any(axis=1))
        return self.base + int(recent[0])

    def _move(self, base: int, rows: int, width: int) -> None:
        old_end, old_phases = self._end, self._phases
        skip = min(base - self.base, len(old_end))
        kept = min(len(old_end) - skip, rows)
        self._end = np.full((rows, width), np.nan)
        self._phases = np.full((len(PHASES), rows, width), np.nan, np.float32)
        self._end[:kept, : old_end.shape[1]] = old_end[skip : skip + kept]
        self._phases[:, :kept, : old_end.shape[1]] = old_phases[:, skip : skip + kept]
        self.base = base
