"""Steps of several batches as columns, joined once for all charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import concatenated, valid_durations, valid_times
from tfscale.core.records.step_batch import PHASES, StepBatch


@dataclass(frozen=True, slots=True)
class JoinedSteps:
    """The k steps of n batches, one batch after the other."""

    batches: Sequence[StepBatch]
    lengths: NDArray[np.int64]
    """(n,) number of each batch's steps, at least one."""
    sequence: NDArray[np.int64]
    end: NDArray[np.float64]
    """(k,) on the console's clock; NaN unknown."""
    phases: NDArray[np.float32]
    """(5, k) seconds, in the order of PHASES; NaN unknown."""


def joined(batches: Sequence[StepBatch], shifts: Sequence[float] | NDArray[np.float64]) -> JoinedSteps:
    """Join batches of steps; (n,) `shifts` are the seconds by which their ends are behind the console's clock."""
    lengths = np.array([len(batch.sequence) for batch in batches])
    phases = [concatenated([getattr(batch, phase) for batch in batches], lengths, np.float32) for phase in PHASES]
    ends = valid_times(concatenated([batch.end for batch in batches], lengths, np.float64))
    sequence = concatenated([batch.sequence for batch in batches], lengths, np.int64)
    return JoinedSteps(batches, lengths, sequence, ends + np.repeat(shifts, lengths), valid_durations(np.stack(phases)))
