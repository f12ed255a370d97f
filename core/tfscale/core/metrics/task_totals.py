"""Counters of a run's tasks, which only grow while the program that serves them lives.

The probe counts collectives anew in each process of each attempt, and an agent or a console that comes late sees counts
from before it. A counter of Prometheus must do neither: it begins at 0 with its program, and goes on over attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tfscale.core.records.frame import Frame
from tfscale.core.records.step_batch import PHASES
from tfscale.core.records.task_status import TaskState


class StepTotals(NamedTuple):
    """Sums over the measured steps of one task."""

    steps: int = 0
    lost: int = 0
    seconds: tuple[float | None, ...] = (None,) * len(PHASES)
    """Seconds in the order of PHASES; None for a phase that no step has."""

    def plus(self, rows: int, lost: int, seconds: Sequence[float | None]) -> StepTotals:
        """Return the sums with those of a batch; of its seconds None is unknown."""
        added = (
            before if spent is None else (before or 0.0) + max(spent, 0.0)
            for before, spent in zip(self.seconds, seconds, strict=True)
        )
        return StepTotals(self.steps + rows, self.lost + lost, tuple(added))


@dataclass(slots=True)
class CollectiveTotals:
    """Collectives of one task over all its attempts, from frames in their order."""

    counts: tuple[int, int] | None = None
    """Collectives entered and left; None before the first report of the probe."""
    _attempt: tuple[int, int] | None = None
    _base: int = 0
    """Number that is added to both counts of the present process."""
    _newest: tuple[int, int] | None = (0, 0)
    """Counts of the present process; None for a process that ran before the first frame, and has not reported."""

    def note(self, frame: Frame) -> None:
        """Take in a frame."""
        attempt = frame.status.generation, frame.status.attempt
        if self._attempt is None and frame.status.state is TaskState.RUNNING:
            self._newest = None
        elif attempt != self._attempt:
            self._begin()
        self._attempt = attempt
        if (collective := frame.collective) is None:
            return
        if self._newest is None:
            # Both from the same number: who is inside a collective still is.
            self._base = -collective.left
        elif collective.left < self._newest[1] or collective.entered < self._newest[0]:
            self._begin()  # another process of the attempt trains, and counts from 0
        self._newest = collective.entered, collective.left
        self.counts = self._base + collective.entered, self._base + collective.left

    def _begin(self) -> None:
        self._newest = (0, 0)
        if self.counts is not None:
            # A process that ended inside a collective has left it.
            self._base = self.counts[0]
            self.counts = self._base, self._base
