"""The steps of all subjects, kept as columns and lined up by (generation, collective sequence).

Place i of every row is collective `base + i`, so that lining up costs nothing: a step is written where it belongs. Each
subject's steps lie side by side, so that writing a batch touches little memory. NaN is unknown: not reported, not yet
reported, or reported as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tfscale.core.records import PHASES, StepBatch
from tfscale.core.validation import LATEST

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]

KEEP_SECONDS = 30.0
"""How far back the steps are kept."""
CELLS = 800_000
"""Bound on steps x subjects, so that a thousand fast workers keep less time instead of more memory."""
_FEWEST_STEPS, _MOST_STEPS = 768, 16_384
_MOST_UNWRITTEN = 256
"""Batches that are written together: enough for numpy, and no more than a key can wait for."""
_LONGEST = 1e9
"""Seconds that no phase lasts."""
SAMPLE = 128
"""Steps of a window that its medians are taken of: beyond it more steps cost time and change no digit."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Steps that `subjects` have reported whole, k of them in order, for n subjects."""

    subjects: tuple[str, ...]
    sequence: Integers
    """(k,)"""
    end: NDArray[np.float64]
    """(k,) Unix seconds at which the first subject left the collective, on its host's clock."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds, in the order of PHASES; NaN in all five where a subject's step is missing."""
    meets: bool = True
    """Whether anybody reduces anything: where nobody does, `reduce` is 0, and nobody waits for anybody."""

    @property
    def lag(self) -> Floats:
        """(k, n) seconds from leaving one collective to entering the next."""
        update, host, fetch, compute = self.phases[:-1]
        return np.asarray(update + host + fetch + compute)

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
        if start == 0:
            return self
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
    _phases: NDArray[np.float32] = field(default_factory=lambda: np.full((0, len(PHASES), 0), np.nan, np.float32))
    _unwritten: list[tuple[int, int, StepBatch]] = field(default_factory=list)
    """Position, first place and steps without a gap: many are written at once when somebody reads."""
    _asked: tuple[bytes, bytes] | None = None
    _answer: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, len(PHASES), 0), np.float32))
    """Whose steps were taken last, and these, until something is written."""
    _gapless: Sequence[int] = ()
    """The last one that was looked through: who meet in every step mostly tell the same."""

    def add(self, batch: StepBatch) -> None:
        """Write a batch where it belongs. Older generations and attempts, and steps too old to keep, are left out."""
        if len(batch.sequence) == 0 or not self._is_current(batch):
            return
        column = self._column(batch.subject)
        column.attempt = batch.attempt
        if batch.sequence is not self._gapless and _has_gaps(batch.sequence):
            self._add_scattered(column, batch)
            return
        self._gapless = batch.sequence
        first, last = int(batch.sequence[0]), int(batch.sequence[-1])
        self._make_room(first, last)
        if first >= self.base:
            self._unwritten.append((column.position, first - self.base, batch))
            if len(self._unwritten) >= _MOST_UNWRITTEN:
                self._write_all()
        elif last >= self.base:
            self._write(column.position, slice(0, last + 1 - self.base), batch, slice(self.base - first, None))
        self._remember(column, batch, last, -1)

    def _add_scattered(self, column: _Column, batch: StepBatch) -> None:
        sequence = np.asarray(batch.sequence, dtype=np.int64)
        last = int(sequence.max())
        self._write_all()
        self._make_room(int(sequence.min()), last)
        kept = np.flatnonzero(sequence >= self.base)
        self._write(column.position, sequence[kept] - self.base, batch, kept)
        self._remember(column, batch, last, int(sequence.argmax()))

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

    def aligned(self, subjects: Sequence[str], first: int = 0, whole: float = 1.0) -> Aligned:
        """The steps from collective `first` on that at least this share of `subjects` have reported whole."""
        self._write_all()
        positions, stop = self._positions(subjects), self._common(subjects)
        places = np.arange(min(max(0, first - self.base), stop), stop)
        planes = self._phases[positions, :, places[0] : stop] if len(places) else self._phases[positions, :, :0]
        return self._lined_up(subjects, places, planes, whole)

    def window(self, subjects: Sequence[str], first: int, seconds: float, steps: int, whole: float) -> Aligned:
        """Those of `subjects`' newest steps that make `seconds`, but `steps` at least; of very many, an even sample."""
        self._write_all()
        positions, stop = self._positions(subjects), self._common(subjects)
        start = min(max(0, first - self.base), stop)
        if start == stop or not len(positions):
            return self.aligned(subjects, first)
        ends = self._end[positions[0], start:stop]
        recent = np.flatnonzero(ends >= np.fmax.reduce(ends) - seconds)
        start += max(0, min(int(recent[0]) if len(recent) else 0, stop - start - steps))
        places = start + _sample(stop - start)
        return self._lined_up(subjects, places, self._taken(positions, places), whole)

    def newest_of_each(self, subjects: Sequence[str], steps: int) -> NDArray[np.float32]:
        """(n, 5, k) phases of the newest `steps` of each of `subjects`, or of an even sample of them; NaN unknown."""
        self._write_all()
        positions = self._positions(subjects)
        stops = np.array([self._columns[subject].newest for subject in subjects], np.int64) - self.base + 1
        if (stops == stops[0]).all() and stops[0] >= steps:
            return possible(self._taken(positions, stops[0] - steps + _sample(steps)))
        places = stops[:, None] - steps + _sample(steps)
        within = np.clip(places, 0, max(0, self._end.shape[1] - 1))
        phases = self._phases[positions[:, None, None], _PLANES, within[:, None]]
        return possible(np.where((places == within)[:, None], phases, np.float32(np.nan)))

    def recent(self, subject: str, seconds: float, steps: int) -> NDArray[np.float64]:
        """(k,) ends of one subject's newest steps: `seconds` of them, but `steps` at least; NaN unknown."""
        self._write_all()
        column = self._columns[subject]
        stop = column.newest - self.base + 1
        ends = self._end[column.position, : max(0, stop)]
        known = np.flatnonzero(ends >= ends[-1] - max(seconds, 0.0)) if stop > 0 else np.empty(0, np.int64)
        start = min(int(known[0]), max(0, stop - steps)) if len(known) else 0
        return np.array(ends[start:])

    def since(self, subject: str, at: float, first: int) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """((k,) ends, (5, k) phases) of one subject's steps from number `first` on that ended after `at`."""
        self._write_all()
        column = self._columns[subject]
        start, stop = max(0, first - self.base), max(0, column.newest - self.base + 1)
        places = start + np.flatnonzero(self._end[column.position, start:stop] > at)
        return self._end[column.position, places], possible(self._phases[column.position][:, places])

    def _taken(self, positions: Integers, places: Integers) -> NDArray[np.float32]:
        """(n, 5, k) phases at these places, not to be written to: asked for again, they are the same."""
        asked = positions.tobytes(), places.tobytes()
        if self._asked != asked:
            planes = self._phases.take(places, axis=2)
            is_whole = len(positions) == len(planes) and _ascends(positions)
            self._asked, self._answer = asked, planes if is_whole else planes[positions]
        return self._answer

    def _positions(self, subjects: Sequence[str]) -> Integers:
        return np.array([self._columns[subject].position for subject in subjects], np.int64)

    def _common(self, subjects: Sequence[str]) -> int:
        """The place after the newest step that all of them have come to."""
        return max(0, min((self._columns[subject].newest for subject in subjects), default=-1) - self.base + 1)

    def _lined_up(self, subjects: Sequence[str], places: Integers, planes: Floats, whole: float) -> Aligned:
        """From (n, 5, k) phases; what is unknown or impossible in one phase is left out as a whole."""
        meets = not np.isnan(planes[:, -1]).all()
        if not meets:
            planes = planes.copy()
            planes[:, -1] = 0.0
        planes = possible(planes)
        known = ~np.isnan(planes.sum(axis=1))
        if not known.all():
            enough = known.sum(axis=0) >= max(1, int(np.ceil(whole * len(subjects))))
            places, known = places[enough], known[:, enough]
            planes = np.where(known[:, None], planes[:, :, enough], np.float32(np.nan))
        ends = self._ends(subjects, places)
        phases = np.ascontiguousarray(planes.transpose(1, 2, 0))
        return Aligned(tuple(subjects), places + self.base, ends, phases, meets)

    def _ends(self, subjects: Sequence[str], places: Integers) -> NDArray[np.float64]:
        """(k,) ends of the first subject, and between them where it has not reported."""
        for position in self._positions(subjects):
            ends = self._end[position, places]
            known = np.isfinite(ends)
            if known.all():
                return np.asarray(ends)
            if known.any():
                return np.asarray(np.interp(places, places[known], ends[known]))
        return np.zeros(len(places))

    def _write(
        self, position: int, places: slice | Integers, batch: StepBatch, kept: slice | Integers | None = None
    ) -> None:
        self._asked = None
        ends = moments(np.asarray(batch.end, dtype=np.float64))
        self._end[position, places] = np.nan if not len(ends) else ends if kept is None else ends[kept]
        for plane, name in zip(self._phases[position], PHASES, strict=True):
            values = np.asarray(getattr(batch, name), dtype=np.float32)
            if not len(values):
                plane[places] = np.nan
            else:
                plane[places] = values if kept is None else values[kept]

    def _write_all(self) -> None:
        """What was added since the last time: batch by batch, a thousand tasks would take several times as long."""
        if not self._unwritten:
            return
        self._asked = None
        added, self._unwritten = self._unwritten, []
        batches = [batch for _, _, batch in added]
        lengths = np.array([len(batch.sequence) for batch in batches])
        ends = moments(joined([batch.end for batch in batches], lengths, np.float64))
        planes = [joined([getattr(batch, name) for batch in batches], lengths, np.float32) for name in PHASES]
        steps = self._end.shape[1]
        positions = np.repeat([position for position, _, _ in added], lengths)
        starts = np.array([place for _, place, _ in added]) - np.cumsum(lengths) + lengths
        places = np.repeat(starts, lengths) + np.arange(lengths.sum())
        self._end.reshape(-1)[positions * steps + places] = ends
        flat, at = self._phases.reshape(-1), positions * (steps * len(PHASES)) + places
        for plane in planes:
            flat[at] = plane
            at += steps

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
        self._unwritten, self._asked = [], None
        self._end = np.full((0, 0), np.nan)
        self._phases = np.full((0, len(PHASES), 0), np.nan, np.float32)
        for column in self._columns.values():
            column.newest, column.global_step = -1, None

    def _column(self, subject: str) -> _Column:
        if subject not in self._columns:
            self._columns[subject] = _Column(position=len(self._columns))
        return self._columns[subject]

    def _remember(self, column: _Column, batch: StepBatch, last: int, row: int) -> None:
        """The newest step of a batch is `last`, in this row."""
        if last > column.newest:
            column.newest = last
            if len(batch.global_step):
                column.global_step = int(batch.global_step[row])

    def _make_room(self, first: int, last: int) -> None:
        width, steps = self._end.shape
        if steps == 0:
            self.base = first
        if last < self.base + steps and len(self._columns) <= width:
            return
        self._write_all()
        wide = width if len(self._columns) <= width else max(2 * width, len(self._columns))
        limit = min(max(_FEWEST_STEPS, self.cells // wide), _MOST_STEPS)
        base = max(self._oldest_kept(), last + 1 - limit * 3 // 4)
        self._move(base, min(limit, max(_FEWEST_STEPS, 2 * (last + 1 - base))), wide)

    def _oldest_kept(self) -> int:
        """The first collective within `keep` seconds of the newest, by whoever is furthest."""
        leader = max(self._columns.values(), key=lambda column: column.newest, default=None)
        if leader is None or leader.newest < 0:
            return self.base
        ends = self._end[leader.position, : max(0, leader.newest - self.base + 1)]
        recent = np.flatnonzero(ends >= np.fmax.reduce(ends, initial=-np.inf) - self.keep)
        return self.base + (int(recent[0]) if len(recent) else 0)

    def _move(self, base: int, steps: int, width: int) -> None:
        self._asked = None
        old_end, old_phases = self._end, self._phases
        skip = min(base - self.base, old_end.shape[1])
        kept = min(old_end.shape[1] - skip, steps)
        if (width, steps) == old_end.shape:
            for same in (self._end, self._phases):
                _shift(same, skip)
        else:
            self._end = np.full((width, steps), np.nan)
            self._phases = np.full((width, len(PHASES), steps), np.nan, np.float32)
            for old, new in ((old_end, self._end), (old_phases, self._phases)):
                new[: len(old), ..., :kept] = old[..., skip : skip + kept]
        self.base = base


def _shift(table: NDArray[np.floating], by: int) -> None:
    """Forget the first `by` places of every row. All rows as one, so that nothing is copied aside."""
    if by:
        flat = table.reshape(-1)
        flat[:-by] = flat[by:]
        table[..., table.shape[-1] - by :] = np.nan


_PLANES = np.arange(len(PHASES))[None, :, None]


def possible(seconds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same with NaN in place of what no duration can be."""
    if not seconds.size or (seconds.min() >= 0 and seconds.max() < _LONGEST):
        return seconds
    return np.where((seconds >= 0) & (seconds < _LONGEST), seconds, np.float32(np.nan))


def moments(ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same with NaN in place of what no Unix seconds can be."""
    known = np.abs(ends) < LATEST
    return ends if known.all() else np.where(known, ends, np.nan)


def joined(columns: Sequence[Sequence[float]], lengths: Integers, kind: type[np.generic]) -> NDArray[Any]:
    """The columns of several batches as one, of these lengths; empty ones are unknown."""
    with suppress(TypeError):
        # An array's bytes are joined several times as fast as arrays are.
        data = b"".join(columns)  # type: ignore[arg-type]
        if len(data) == lengths.sum() * np.dtype(kind).itemsize:
            return np.frombuffer(data, kind)
    pairs = zip(columns, lengths.tolist(), strict=True)
    return np.concatenate(
        [np.asarray(each, kind) if len(each) else np.full(long, np.nan, kind) for each, long in pairs]
    )


def _has_gaps(sequence: Sequence[int]) -> bool:
    """Whether any step is not the one after the step before it."""
    return sequence[-1] - sequence[0] != len(sequence) - 1 or not _ascends(np.asarray(sequence, dtype=np.int64))


def _ascends(sequence: Integers) -> bool:
    return bool((sequence[1:] > sequence[:-1]).all())


@lru_cache(maxsize=64)
def _sample(count: int) -> Integers:
    """(<= SAMPLE,) places within `count`, spread evenly but at no fixed distance: work that recurs every so many steps
    must not be met always or never."""
    if count <= SAMPLE:
        return np.arange(count)
    strata = np.arange(SAMPLE)
    within = strata * 0.618034 % 1.0
    return np.asarray((strata + within) * count / SAMPLE, np.int64)
