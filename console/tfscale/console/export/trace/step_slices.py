"""Slices of steps: each step with its phases one after the other, and the wait in its all-reduce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats, Integers
from tfscale.console.wire.perfetto_writer import Edge, PerfettoWriter
from tfscale.core.records.step_batch import PHASES

_COMPUTE = PHASES.index("compute")
_WAIT, _STEP = 2 * len(PHASES), 2 * len(PHASES) + 1
"""Columns of the wait's end, and of the step's begin and end, after the begin and end of each phase."""


@dataclass(frozen=True, slots=True)
class SubjectSteps:
    """k steps of one subject, on the axis of the trace."""

    sequence: Integers
    end: NDArray[np.float64]
    """(k,) Unix seconds; NaN unknown."""
    phases: Floats
    """(5, k) seconds; NaN unknown."""
    wait: Floats
    """(k,) seconds of the all-reduce in which the subject waited for a slower one; NaN unknown."""


class StepTrack:
    """Track of one subject's steps.

    A step lasts from the end of the one before to its own. Its phases have their lengths and their order: what
    activities took of it lies after `update`. Where `compute` is unknown, so is the place of the phases before it: they
    are drawn from the begin on.
    """

    def __init__(self, writer: PerfettoWriter, track: int) -> None:
        self._writer, self._track = writer, track
        self._number, self._end = -2, 0
        """Number and end, nanoseconds, of the newest written step."""
        self.left_out = 0
        """Steps that end before one that was written, since a clock was set."""

    def write(self, steps: SubjectSteps) -> None:
        """Write steps that follow the written ones."""
        ends = _nanoseconds(steps.end)
        is_next = ends > np.maximum.accumulate(np.concatenate([[self._end], ends[:-1]]))
        self.left_out += int(((ends > 0) & ~is_next).sum())
        if not is_next.any():
            return
        number, end, phases = steps.sequence[is_next], ends[is_next], steps.phases[:, is_next]
        lengths, wait = _nanoseconds(phases), _nanoseconds(steps.wait[is_next])
        times = _times(self._begins(number, end, lengths), end, lengths, wait, np.isnan(phases[_COMPUTE]))
        self._number, self._end = int(number[-1]), int(end[-1])
        shapes = (1 << np.arange(len(PHASES))) @ ~np.isnan(phases) + ((wait > 0) << len(PHASES))
        groups = [b""] * len(number)
        for shape in np.unique(shapes):
            rows = np.flatnonzero(shapes == shape)
            packets = self._writer.slices(self._track, [*_edges(int(shape))], times[rows], number[rows])
            for row, packet in zip(rows.tolist(), packets, strict=True):
                groups[row] = packet
        self._writer.write(b"".join(groups))

    def _begins(self, number: Integers, end: Integers, lengths: Integers) -> Integers:
        """Return where steps begin: at the end of the one before, or where that is unknown by the sum of the phases."""
        number_before = np.concatenate([[self._number], number[:-1]])
        before = np.concatenate([[self._end], end[:-1]])
        return np.where(number_before == number - 1, before, np.maximum(before, end - lengths.sum(axis=0)))


def _nanoseconds(seconds: NDArray[np.floating]) -> Integers:
    """Return seconds as nanoseconds, 0 where they are unknown: as floats, times of these days are 240 ns apart."""
    return np.round(1e9 * np.nan_to_num(seconds.astype(np.float64))).astype(np.int64)


def _times(begin: Integers, end: Integers, lengths: Integers, wait: Integers, is_vague: NDArray[np.bool_]) -> Integers:
    """Return (k, 13) begin and end of each phase, the end of the wait, and begin and end of the step."""
    backwards = end - np.cumsum(lengths[::-1], axis=0)[::-1]
    backwards[0] = begin
    begins = np.where(is_vague, begin + np.cumsum(lengths, axis=0) - lengths, backwards)
    phases = np.stack([begins, begins + lengths], axis=1).reshape(_WAIT, -1)
    phases = np.clip(np.maximum.accumulate(phases), begin, end)
    waited = np.minimum(phases[-2] + wait, end)
    return np.concatenate([phases, [waited, begin, end]]).T


def _edges(shape: int) -> Iterator[Edge]:
    """Yield the slices of a step in which the phases of these bits are known, and the wait by the highest bit."""
    yield "step", True, _STEP
    for index, phase in enumerate(PHASES):
        if shape >> index & 1:
            yield phase, True, 2 * index
            if phase == "reduce" and shape >> len(PHASES) & 1:
                yield "wait", True, 2 * index
                yield "wait", False, _WAIT
            yield phase, False, 2 * index + 1
    yield "step", False, _STEP + 1
