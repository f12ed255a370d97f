"""Staleness of asynchronous updates, from the times of each worker's steps.

A worker pulls the variables, computes gradients and pushes them. The staleness of its update is the number of other
workers' updates that reach the servers in between. All times are on the chief's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats, Integers
from tfscale.core.records.step_batch import PHASES

_UPDATE, _COMPUTE = PHASES.index("update"), PHASES.index("compute")
LONGEST = 32
"""Staleness from which on updates are counted together: a histogram of so many numbers fits into a line."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """Staleness of the newest updates of one worker."""

    mean: float
    updates: Mapping[int, int]
    """Number of updates by their staleness, in rising order; LONGEST counts all higher ones, too."""


class Updates(NamedTuple):
    """k updates of one worker, in order of time; Unix seconds."""

    pulled: Floats
    """(k,) begin of the pass that computed the gradients."""
    applied: Floats
    """(k,) time at which the servers had changed the variables."""

    @classmethod
    def of(cls, end: Floats, phases: Floats) -> Updates:
        """Return the updates of (k + 1,) ends and (5, k + 1) phases: a step's push is the `update` of the next step."""
        pulled, applied = end[:-1] - phases[_COMPUTE, :-1], end[:-1] + phases[_UPDATE, 1:]
        is_known = np.isfinite(pulled) & np.isfinite(applied)
        return cls(pulled[is_known], applied[is_known])


def staleness(workers: Sequence[Updates]) -> list[Staleness | None]:
    """Return the staleness of each worker's updates; None without updates in the time that all have reported."""
    if len(workers) < 2 or not all(len(worker.applied) for worker in workers):
        return [None] * len(workers)
    begin = max(float(worker.applied.min()) for worker in workers)
    end = min(float(worker.applied.max()) for worker in workers)
    everything = np.sort(np.concatenate([worker.applied for worker in workers]))
    return [_of_worker(worker, everything, begin, end) for worker in workers]


def _of_worker(worker: Updates, everything: Floats, begin: float, end: float) -> Staleness | None:
    inside = (worker.pulled >= begin) & (worker.applied <= end)
    pulled, applied, own = worker.pulled[inside], worker.applied[inside], np.sort(worker.applied)
    counts = _between(everything, pulled, applied) - _between(own, pulled, applied)
    if not len(counts):
        return None
    values, numbers = np.unique(np.minimum(counts, LONGEST), return_counts=True)
    return Staleness(float(counts.mean()), dict(zip(values.tolist(), numbers.tolist(), strict=True)))


def _between(times: Floats, pulled: Floats, applied: Floats) -> Integers:
    """Return (k,) how many of the sorted times lie after each pull and before each push."""
    return np.asarray(np.maximum(0, np.searchsorted(times, applied, "left") - np.searchsorted(times, pulled, "right")))
