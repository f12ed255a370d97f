"""Table of the newest steps of all subjects, aligned by (generation, sequence of the collective).

Column i of every row is collective `base + i`: a step is written to its column, so that aligning costs nothing. Each
subject has a row of its own, so that writing a batch touches little memory. NaN is unknown: not reported, not yet
reported, or reported as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats, Integers, concatenated, valid_durations, valid_times
from tfscale.core.records.step_batch import PHASES, StepBatch

KEEP_SECONDS = 75.0
"""Seconds of steps that are kept. A new console gets the agents' minute of frames agent by agent, so more than a
minute is kept; with 30 s an earlier onset was told as 30 s ago (tests/console/analysis/test_order_of_frames.py)."""
CELLS = 800_000
"""Bound on steps x subjects: a thousand fast workers keep less time instead of more memory."""
FEWEST_STEPS, MOST_STEPS = 768, 16_384
"""Bounds on the steps of each subject, whatever `keep` and `cells` say."""
_MOST_UNWRITTEN = 256
"""Batches that are written together: few make numpy's calls the cost, many delay the console's next key."""
SAMPLE = 128
"""Steps of a window whose medians are taken: more take time and change no shown digit."""


@dataclass(slots=True)
class _SubjectRow:
    """One subject's row of the table, and its state besides the steps."""

    position: int
    """Index of the row."""
    attempt: int = 0
    """0 before the subject's first step of this generation."""
    part: int = 0
    """Process of the attempt that made these steps."""
    newest: int = -1
    """Sequence of the newest step, -1 before the first."""
    global_step: int | None = None


@dataclass(slots=True)
class StepTable:
    """The newest steps of one generation, for subjects that take part in the same collective."""

    keep: float = KEEP_SECONDS
    """Seconds of steps that are kept."""
    cells: int = CELLS
    """Bound on steps x subjects."""
    fewest: int = FEWEST_STEPS
    most: int = MOST_STEPS
    """Bounds on the steps of each subject."""
    generation: int = -1
    resets: int = 0
    """Number of times that a new attempt, or a new process in an attempt, made all older steps void."""
    base: int = 0
    """Sequence of the collective in column 0."""
    _rows: dict[str, _SubjectRow] = field(default_factory=dict)
    _end: NDArray[np.float64] = field(default_factory=lambda: np.full((0, 0), np.nan))
    _phases: NDArray[np.float32] = field(default_factory=lambda: np.full((0, len(PHASES), 0), np.nan, np.float32))
    _unwritten: list[tuple[int, int, StepBatch]] = field(default_factory=list)
    """(row, first column, steps without a gap) of each batch that the next read writes."""
    _cached_key: tuple[bytes, bytes] | None = None
    """(rows, columns) of `_cached`, None after each write."""
    _cached: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, len(PHASES), 0), np.float32))
    """(n, 5, k) phases of the last read."""
    _subjects: tuple[str, ...] | None = None
    """Subjects with a step; None is outdated, after a subject's first step."""
    _placed: tuple[Sequence[str], Integers] = ((), np.empty(0, np.int64))
    """(subjects, their rows) of the last look-up: many reads of a second are of the same thousand subjects."""
    _gapless: Sequence[int] = ()
    """Last sequence that was checked for gaps: batches of one second mostly share one object."""

    def add(self, batch: StepBatch) -> bool:
        """Write a batch into its columns, and return whether it is of the current attempt.

        Steps of older generations, attempts and processes, and steps too old to keep, are left out.
        """
        if not self.admit(batch):
            return False
        row = self._rows[batch.subject]
        last, index = self._newest_in(batch)
        if index >= 0:
            self._write_all()
            sequence = np.asarray(batch.sequence, dtype=np.int64)
            self._make_room(int(sequence.min()), last)
            inside = np.flatnonzero(sequence >= self.base)
            self._write(row.position, sequence[inside] - self.base, batch, inside)
            self._remember(row, batch, last, index)
            return True
        first = int(batch.sequence[0])
        self._make_room(first, last)
        if first >= self.base:
            self._unwritten.append((row.position, first - self.base, batch))
            if len(self._unwritten) >= _MOST_UNWRITTEN:
                self._write_all()
        elif last >= self.base:
            self._write(row.position, slice(0, last + 1 - self.base), batch, slice(self.base - first, None))
        self._remember(row, batch, last, index)
        return True

    def admit(self, batch: StepBatch) -> bool:
        """Decide whether a batch has steps of the current attempt; the first batch of an attempt begins it."""
        if len(batch.sequence) == 0 or not self._is_current(batch):
            return False
        row = self._row(batch.subject)
        row.attempt, row.part = batch.attempt, batch.part
        return True

    def write_joined(
        self,
        batches: Sequence[StepBatch],
        sequence: Integers,
        ends: NDArray[np.float64],
        phases: NDArray[np.float32],
    ) -> None:
        """Write admitted batches, whose steps are joined: (k,) collectives, (k,) ends and (5, k) phases."""
        if not batches:
            return
        self._write_all()
        self._make_room(int(sequence.min()), int(sequence.max()))
        rows = [self._rows[batch.subject] for batch in batches]
        positions = np.repeat([row.position for row in rows], [len(batch.sequence) for batch in batches])
        kept = slice(None) if sequence.min() >= self.base else sequence >= self.base
        self._scatter(positions[kept], sequence[kept] - self.base, ends[kept], phases[:, kept])
        for row, batch in zip(rows, batches, strict=True):
            self._remember(row, batch, *self._newest_in(batch))

    def _newest_in(self, batch: StepBatch) -> tuple[int, int]:
        """Return (sequence of the newest step of a batch, its index); -1 as the index if the batch has no gap."""
        if batch.sequence is not self._gapless and _has_gaps(batch.sequence):
            sequence = np.asarray(batch.sequence, dtype=np.int64)
            return int(sequence.max()), int(sequence.argmax())
        self._gapless = batch.sequence
        return int(batch.sequence[-1]), -1

    def attempt(self, subject: str) -> tuple[int, int]:
        """Return (generation, attempt) of the subject's steps."""
        return self.generation, self._rows[subject].attempt

    def part(self, subject: str) -> int:
        """Return the process of its attempt that measured the subject's steps."""
        return self._rows[subject].part

    def newest(self, subject: str) -> int | None:
        """Return the sequence of the subject's newest step, None before its first."""
        row = self._rows.get(subject)
        return row.newest if row and row.newest >= 0 else None

    def newest_end(self, subject: str) -> float:
        """Return the end of the subject's newest step, Unix seconds; NaN unknown or no longer kept."""
        self._write_all()
        row = self._rows[subject]
        place = row.newest - self.base
        return float(self._end[row.position, place]) if 0 <= place < self._end.shape[1] else math.nan

    def move(self, subject: str, seconds: float) -> None:
        """Move the ends of the subject's steps by the seconds by which its host's clock was set."""
        self._write_all()
        self._end[self._rows[subject].position] += seconds

    def global_step(self, subject: str) -> int | None:
        """Return the subject's newest global step, None where its program does not count them."""
        row = self._rows.get(subject)
        return row.global_step if row else None

    def subjects(self) -> tuple[str, ...]:
        """Return every subject with a step in this generation, in the order of its first batch."""
        if self._subjects is None:
            self._subjects = tuple(name for name, row in self._rows.items() if row.newest >= 0)
        return self._subjects

    def oldest(self) -> int | None:
        """Return the oldest collective of which a step is kept, None before the first step."""
        self._write_all()
        is_reported = ~np.isnan(self._end).all(axis=0) | ~np.isnan(self._phases).all(axis=(0, 1))
        return self.base + int(is_reported.argmax()) if is_reported.any() else None

    def reported(
        self, subjects: Sequence[str], first: int, last: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return ((n, k) ends, (n, 5, k) phases) of the collectives `first` to `last` as reported; NaN unknown."""
        self._write_all()
        positions, places = self._positions(subjects), np.arange(first, last + 1) - self.base
        within = np.clip(places, 0, max(0, self._end.shape[1] - 1))
        is_kept = places == within
        ends = np.where(is_kept, self._end[positions[:, None], within], np.nan)
        phases = self._phases[positions[:, None, None], _ALL_PHASES, within[None, None]]
        return ends, valid_durations(np.where(is_kept, phases, np.float32(np.nan)))

    def aligned(self, subjects: Sequence[str], first: int = 0, complete: float = 1.0) -> AlignedSteps:
        """Return the steps from collective `first` on that at least the share `complete` of `subjects` reported."""
        self._write_all()
        positions, stop = self._positions(subjects), self._common(subjects)
        columns = np.arange(min(max(0, first - self.base), stop), stop)
        planes = self._phases[positions, :, columns[0] : stop] if len(columns) else self._phases[positions, :, :0]
        return self._align(subjects, columns, planes, complete)

    def window(self, subjects: Sequence[str], first: int, seconds: float, steps: int, complete: float) -> AlignedSteps:
        """Return the newest `seconds` of `aligned(subjects, first, complete)`, at least `steps` of them.

        Of more than SAMPLE steps an even sample.
        """
        self._write_all()
        positions, stop = self._positions(subjects), self._common(subjects)
        start = min(max(0, first - self.base), stop)
        if start == stop or not len(positions):
            return self.aligned(subjects, first)
        ends = self._end[positions[0], start:stop]
        recent = np.flatnonzero(ends >= np.fmax.reduce(ends) - seconds)
        start += max(0, min(int(recent[0]) if len(recent) else 0, stop - start - steps))
        columns = start + _sample(stop - start)
        return self._align(subjects, columns, self._read(positions, columns), complete)

    def newest_of_each(self, subjects: Sequence[str], steps: int) -> NDArray[np.float32]:
        """Return (n, 5, k) phases of the newest `steps` of each subject, NaN unknown; of more than SAMPLE a sample."""
        self._write_all()
        positions = self._positions(subjects)
        stops = np.array([self._rows[subject].newest for subject in subjects], np.int64) - self.base + 1
        if (stops == stops[0]).all() and stops[0] >= steps:
            return valid_durations(self._read(positions, stops[0] - steps + _sample(steps)))
        columns = stops[:, None] - steps + _sample(steps)
        within = np.clip(columns, 0, max(0, self._end.shape[1] - 1))
        phases = self._phases[positions[:, None, None], _ALL_PHASES, within[:, None]]
        return valid_durations(np.where((columns == within)[:, None], phases, np.float32(np.nan)))

    def recent(self, subject: str, seconds: float, steps: int) -> NDArray[np.float64]:
        """Return (k,) ends of one subject's newest steps: `seconds` of them, `steps` at least; NaN unknown."""
        self._write_all()
        row = self._rows[subject]
        stop = row.newest - self.base + 1
        ends = self._end[row.position, : max(0, stop)]
        newest = np.flatnonzero(ends >= ends[-1] - max(seconds, 0.0)) if stop > 0 else np.empty(0, np.int64)
        start = min(int(newest[0]), max(0, stop - steps)) if len(newest) else 0
        return np.array(ends[start:])

    def since(self, subject: str, at: float, first: int) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return ((k,) ends, (5, k) phases) of one subject's steps from number `first` on that ended after `at`."""
        self._write_all()
        row = self._rows[subject]
        start, stop = max(0, first - self.base), max(0, row.newest - self.base + 1)
        columns = start + np.flatnonzero(self._end[row.position, start:stop] > at)
        return self._end[row.position, columns], valid_durations(self._phases[row.position][:, columns])

    def _read(self, positions: Integers, columns: Integers) -> NDArray[np.float32]:
        """Return (n, 5, k) phases of these rows and columns. Do not write to them: the next read may share them."""
        key = positions.tobytes(), columns.tobytes()
        if self._cached_key != key:
            planes = self._phases.take(columns, axis=2)
            is_all = len(positions) == len(planes) and _ascends(positions)
            self._cached_key, self._cached = key, planes if is_all else planes[positions]
        return self._cached

    def _positions(self, subjects: Sequence[str]) -> Integers:
        known, positions = self._placed
        if known is not subjects:
            positions = np.array([self._rows[subject].position for subject in subjects], np.int64)
            # A list may hold other subjects at the next call.
            self._placed = (subjects, positions) if isinstance(subjects, tuple) else self._placed
        return positions

    def _common(self, subjects: Sequence[str]) -> int:
        """Return the column after the newest step that all these rows have reached."""
        return max(0, min((self._rows[subject].newest for subject in subjects), default=-1) - self.base + 1)

    def _align(self, subjects: Sequence[str], columns: Integers, planes: Floats, complete: float) -> AlignedSteps:
        """Align (n, 5, k) phases; a step with one phase unknown or impossible is unknown for that subject."""
        meets = not np.isnan(planes[:, -1]).all()
        if not meets:
            planes = planes.copy()
            planes[:, -1] = 0.0
        planes = valid_durations(planes)
        is_known = ~np.isnan(planes.sum(axis=1))
        if not is_known.all():
            enough = is_known.sum(axis=0) >= max(1, int(np.ceil(complete * len(subjects))))
            columns, is_known = columns[enough], is_known[:, enough]
            planes = np.where(is_known[:, None], planes[:, :, enough], np.float32(np.nan))
        ends = self._ends(subjects, columns)
        phases = np.ascontiguousarray(planes.transpose(1, 2, 0))
        return AlignedSteps(tuple(subjects), columns + self.base, ends, phases, meets)

    def _ends(self, subjects: Sequence[str], columns: Integers) -> NDArray[np.float64]:
        """Return (k,) ends of the first subject with any, interpolated where it has not reported."""
        for position in self._positions(subjects):
            ends = self._end[position, columns]
            is_known = np.isfinite(ends)
            if is_known.all():
                return np.asarray(ends)
            if is_known.any():
                return np.asarray(np.interp(columns, columns[is_known], ends[is_known]))
        return np.zeros(len(columns))

    def _write(
        self, position: int, columns: slice | Integers, batch: StepBatch, selected: slice | Integers | None = None
    ) -> None:
        self._cached_key = None
        ends = valid_times(np.asarray(batch.end, dtype=np.float64))
        self._end[position, columns] = np.nan if not len(ends) else ends if selected is None else ends[selected]
        for plane, name in zip(self._phases[position], PHASES, strict=True):
            values = np.asarray(getattr(batch, name), dtype=np.float32)
            if not len(values):
                plane[columns] = np.nan
            else:
                plane[columns] = values if selected is None else values[selected]

    def _write_all(self) -> None:
        """Write the batches since the last read together: one by one takes several times as long for many tasks."""
        if not self._unwritten:
            return
        added, self._unwritten = self._unwritten, []
        batches = [batch for _, _, batch in added]
        lengths = np.array([len(batch.sequence) for batch in batches])
        ends = valid_times(concatenated([batch.end for batch in batches], lengths, np.float64))
        planes = [concatenated([getattr(batch, name) for batch in batches], lengths, np.float32) for name in PHASES]
        positions = np.repeat([position for position, _, _ in added], lengths)
        starts = np.array([first for _, first, _ in added]) - np.cumsum(lengths) + lengths
        self._scatter(positions, np.repeat(starts, lengths) + np.arange(lengths.sum()), ends, planes)

    def _scatter(
        self, positions: Integers, columns: Integers, ends: NDArray[np.float64], planes: Iterable[NDArray[np.float32]]
    ) -> None:
        """Write (k,) ends and 5 times (k,) phases at (k,) rows and columns."""
        self._cached_key = None
        steps = self._end.shape[1]
        self._end.reshape(-1)[positions * steps + columns] = ends
        flat, at = self._phases.reshape(-1), positions * (steps * len(PHASES)) + columns
        for plane in planes:
            flat[at] = plane
            at += steps

    def _is_current(self, batch: StepBatch) -> bool:
        row = self._rows.get(batch.subject)
        known = (row.attempt, row.part) if row and row.attempt and batch.generation == self.generation else (0, 0)
        newest = (batch.attempt, batch.part)
        if batch.generation < self.generation or newest < known:
            return False
        if batch.generation > self.generation or (0, 0) < known < newest:
            self._reset(batch.generation)
        return True

    def _reset(self, generation: int) -> None:
        """Forget all steps: a new attempt, or a new process in it, numbers its collectives anew.

        Older steps cannot be aligned with these.
        """
        is_generation, self.generation = generation > self.generation, generation
        self.resets += 1
        self._unwritten, self._cached_key, self._subjects = [], None, None
        self._end = np.full((0, 0), np.nan)
        self._phases = np.full((0, len(PHASES), 0), np.nan, np.float32)
        for row in self._rows.values():
            row.newest, row.global_step = -1, None
            if is_generation:
                # Attempts are counted within a generation.
                row.attempt = row.part = 0

    def _row(self, subject: str) -> _SubjectRow:
        if subject not in self._rows:
            self._rows[subject] = _SubjectRow(position=len(self._rows))
        return self._rows[subject]

    def _remember(self, row: _SubjectRow, batch: StepBatch, last: int, index: int) -> None:
        """Take in the newest step of a batch: its sequence `last`, at `index` of the batch."""
        if last > row.newest:
            if row.newest < 0:
                self._subjects = None
            row.newest = last
            if len(batch.global_step):
                row.global_step = int(batch.global_step[index])

    def _make_room(self, first: int, last: int) -> None:
        width, steps = self._end.shape
        if steps == 0:
            self.base = first
        if last < self.base + steps and len(self._rows) <= width:
            return
        self._write_all()
        # A late batch of a new subject must not cut off what the others have already reported.
        last = max(last, *(row.newest for row in self._rows.values()))
        wide = width if len(self._rows) <= width else max(2 * width, len(self._rows))
        limit = min(max(self.fewest, self.cells // wide), self.most)
        base = max(self._oldest_kept(), last + 1 - limit * 3 // 4)
        self._move(base, min(limit, max(self.fewest, 2 * (last + 1 - base))), wide)

    def _oldest_kept(self) -> int:
        """Return the first collective within `keep` seconds of the newest, by the subject that is ahead."""
        leader = max(self._rows.values(), key=lambda row: row.newest, default=None)
        if leader is None or leader.newest < 0:
            return self.base
        ends = self._end[leader.position, : max(0, leader.newest - self.base + 1)]
        recent = np.flatnonzero(ends >= np.fmax.reduce(ends, initial=-np.inf) - self.keep)
        return self.base + (int(recent[0]) if len(recent) else 0)

    def _move(self, base: int, steps: int, width: int) -> None:
        self._cached_key = None
        old_end, old_phases = self._end, self._phases
        skip = min(base - self.base, old_end.shape[1])
        remaining = min(old_end.shape[1] - skip, steps)
        if (width, steps) == old_end.shape:
            for same in (self._end, self._phases):
                _shift(same, skip)
        else:
            self._end = np.full((width, steps), np.nan)
            self._phases = np.full((width, len(PHASES), steps), np.nan, np.float32)
            for old, new in ((old_end, self._end), (old_phases, self._phases)):
                new[: len(old), ..., :remaining] = old[..., skip : skip + remaining]
        self.base = base


def _shift(table: NDArray[np.floating], by: int) -> None:
    """Drop the first `by` columns. Moves all rows as one array, so that numpy makes no temporary copy."""
    if by:
        flat = table.reshape(-1)
        flat[:-by] = flat[by:]
        table[..., table.shape[-1] - by :] = np.nan


_ALL_PHASES = np.arange(len(PHASES))[None, :, None]


def _has_gaps(sequence: Sequence[int]) -> bool:
    """Decide whether any step does not follow the one before it."""
    return sequence[-1] - sequence[0] != len(sequence) - 1 or not _ascends(np.asarray(sequence, dtype=np.int64))


def _ascends(sequence: Integers) -> bool:
    return bool((sequence[1:] > sequence[:-1]).all())


@lru_cache(maxsize=64)
def _sample(count: int) -> Integers:
    """Return (<= SAMPLE,) indices below `count`, spread evenly but at no fixed distance.

    At a fixed distance, periodic work of that period would be in all of the sample or in none of it.
    """
    if count <= SAMPLE:
        return np.arange(count)
    strata = np.arange(SAMPLE)
    within = strata * 0.618034 % 1.0
    return np.asarray((strata + within) * count / SAMPLE, np.int64)
