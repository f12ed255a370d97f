"""Steps of all subjects beside each other, aligned by the sequence of their collective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats, Integers
from tfscale.console.analysis.steps.phases import longest_lag, medians, transfer
from tfscale.core.failure.hang_limits import SHORTEST_STANDSTILL, USUAL_STEPS


@dataclass(frozen=True, slots=True)
class AlignedSteps:
    """k steps of n subjects, in order: row s of every array is the same collective for all subjects."""

    subjects: tuple[str, ...]
    sequence: Integers
    """(k,) numbers of the collectives, rising."""
    end: NDArray[np.float64]
    """(k,) Unix seconds at which the first of the subjects left the collective, on its host's clock."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds, in the order of PHASES; NaN in all five where a subject's step is missing."""
    meets: bool = True
    """True where the subjects share an all-reduce; without one `reduce` is 0, and no subject waits for another."""

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

    def last(self, rows: int) -> AlignedSteps:
        """Return the newest `rows` of these steps."""
        return self._from(max(0, len(self) - rows))

    def since(self, at: float) -> AlignedSteps:
        """Return the steps that ended after `at`, Unix seconds."""
        return self._from(int(np.searchsorted(self.end, at, side="right")))

    def after(self, sequence: int) -> AlignedSteps:
        """Return the steps after this collective."""
        return self._from(int(np.searchsorted(self.sequence, sequence, side="right")))

    def in_order(self) -> AlignedSteps:
        """Return the steps without those that end after a later one: the clock was set back between them."""
        is_before = self.end <= np.minimum.accumulate(self.end[::-1])[::-1]
        return self if is_before.all() else self._selected(is_before)

    def without_standstills(self) -> AlignedSteps:
        """Return the steps without those so long that the cluster stood still in them."""
        took = longest_lag(self.lag) + transfer(self.reduce)
        is_usual = ~(took > max(SHORTEST_STANDSTILL, USUAL_STEPS * float(medians(took)))) if len(self) else None
        return self if is_usual is None or is_usual.all() else self._selected(is_usual)

    def _from(self, start: int) -> AlignedSteps:
        return self if start == 0 else self._selected(slice(start, None))

    def _selected(self, rows: slice | NDArray[np.bool_]) -> AlignedSteps:
        return AlignedSteps(self.subjects, self.sequence[rows], self.end[rows], self.phases[:, rows], self.meets)
