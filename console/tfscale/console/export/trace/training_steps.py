"""Steps of one training on the axis of a trace: workers and replicas that meet in the same all-reduces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats, Integers, valid_durations
from tfscale.console.analysis.steps.phases import transfer
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.console.export.trace.aligned_clocks import AlignedClocks
from tfscale.console.export.trace.step_slices import SubjectSteps
from tfscale.core.cluster.task import subject_owner
from tfscale.core.records.step_batch import StepBatch

PATIENCE = 15.0
"""Seconds for which the steps of the others wait for a subject that has reported none."""
_KEEP, _CELLS = 60.0, 3_000_000
"""Seconds, and steps x subjects, that a table keeps: more than is waited for; 84 MB at most."""


@dataclass(frozen=True, slots=True)
class AllReduces:
    """k all-reduces of n subjects, on the axis of the trace."""

    sequence: Integers
    subjects: tuple[str, ...]
    entered: NDArray[np.float64]
    """(n, k) Unix seconds; NaN unknown."""
    left: NDArray[np.float64]
    """(n, k) Unix seconds; NaN unknown."""


class TrainingSteps:
    """Steps of subjects with equal work, which wait until all have reported them, and are then written in order."""

    def __init__(
        self, clocks: AlignedClocks, expected: int, *, is_main: bool, write: Callable[[str, SubjectSteps], None]
    ) -> None:
        """Expect so many subjects. Align `clocks` by the steps if they are the training's main ones, else read them."""
        self._clocks, self._expected, self._is_main, self._write = clocks, expected, is_main, write
        self._table = StepTable(keep=_KEEP, cells=_CELLS)
        self._heard: dict[str, float] = {}
        """When each subject's newest steps came."""
        self._began = 0.0
        """When the first steps of the attempt came."""
        self._next = 0
        """Number of the first step that is not written; before the first all-reduce that all have reported, none is."""
        self.left_out = 0
        """Steps that came too late to be written."""

    def add(self, batch: StepBatch, at: float) -> list[AllReduces]:
        """Take in the steps of a frame that came `at`; return the all-reduces of an attempt that they end."""
        ended = self.flush(at, is_over=True) if self._begins_anew(batch) else []
        resets = self._table.resets
        if not self._table.add(batch):
            self.left_out += len(batch.sequence)
            return ended
        if resets != self._table.resets or not self._heard:
            self._heard, self._began, self._next = {}, at, 0
        self.left_out += sum(number < self._next for number in batch.sequence)
        self._heard[batch.subject] = at
        return ended

    def flush(self, at: float, *, is_over: bool = False) -> list[AllReduces]:
        """Write the steps that all subjects have reported, or that waited long enough; all of them if it is over."""
        subjects = tuple(subject for subject in self._table.subjects() if subject in self._heard)
        newest = [self._table.newest(each) or 0 for each in subjects if is_over or at - self._heard[each] < PATIENCE]
        is_early = len(subjects) < self._expected and at - self._began < PATIENCE
        if not newest or (is_early and not is_over):
            return []
        last = max(newest) if is_over else min(newest)
        oldest = self._table.oldest()
        if last < self._next or oldest is None:
            return []
        first, self._next = max(self._next, oldest), last + 1
        return self._written(subjects, np.arange(first, last + 1))

    def _begins_anew(self, batch: StepBatch) -> bool:
        table = self._table
        if batch.generation != table.generation or batch.subject not in self._heard:
            return batch.generation > table.generation
        return (batch.attempt, batch.part) > (table.attempt(batch.subject)[1], table.part(batch.subject))

    def _written(self, subjects: tuple[str, ...], sequence: Integers) -> list[AllReduces]:
        ends, phases = self._table.reported(subjects, int(sequence[0]), int(sequence[-1]))
        phases = valid_durations(phases)
        reduce = phases[:, -1]
        tasks = [*map(subject_owner, subjects)]
        meets = len(subjects) > 1 and not np.isnan(reduce).all()
        if meets and self._is_main:
            self._clocks.follow(tasks, ends, transfer(reduce.T))
        ends = ends - np.array([self._clocks.ahead.get(task, 0.0) for task in tasks])[:, None]
        wait = reduce - transfer(reduce.T) if meets else np.full_like(reduce, np.nan)
        for row, subject in enumerate(subjects):
            self._write(subject, SubjectSteps(sequence, ends[row], phases[row], wait[row]))
        return [AllReduces(sequence, subjects, ends - reduce, ends)] if meets and self._is_main else []


def steps_of(batch: StepBatch, ahead: float) -> SubjectSteps:
    """Return the steps of a batch of a subject that meets no other, on a clock that is so many seconds ahead."""
    table = StepTable()
    table.add(batch)
    sequence = np.asarray(batch.sequence, np.int64)
    ends, phases = table.reported([batch.subject], int(sequence.min()), int(sequence.max()))
    rows = sequence - sequence.min()
    known: Floats = valid_durations(phases[0][:, rows])
    return SubjectSteps(sequence, ends[0, rows] - ahead, known, np.full(len(rows), np.float32(np.nan)))
