"""Search for a batch: sizes double, then those between are tried; the smallest one that is fast enough is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfscale.trainer.compare.measured_run import MeasuredRun

ENOUGH = 0.95
"""Share of the most examples a second with which a smaller size does."""
HEAD_ROOM = 0.1
_NEAR = 0.25
"""Distance of two sizes, as a share of the smaller one, between which none is tried."""
_IN_VAIN = 2
"""Doublings in a row without a gain after which no larger size is tried: beside one run, others may have worked."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """All runs of one size."""

    size: int
    runs: Sequence[MeasuredRun]

    @property
    def failed(self) -> MeasuredRun | None:
        """The run that was not measured; None where all were."""
        return next((run for run in self.runs if run.reason), None)

    @property
    def is_out_of_memory(self) -> bool:
        return self.failed is not None and self.failed.is_out_of_memory

    @property
    def fastest(self) -> MeasuredRun | None:
        """The run with the shortest step: other work on a machine only makes runs slower. None where one failed."""
        return None if self.failed else min(self.runs, key=lambda run: run.step or 0.0)

    @property
    def rate(self) -> float:
        """Examples a second of the fastest run; a step counts `size` where it tells none. 0 where a run failed."""
        run = self.fastest
        return (run.examples or self.size) / run.step if run and run.step else 0.0


class SizeSearch:
    """Sizes that were measured, and the one that is chosen."""

    def __init__(self, measure: Callable[[int], SizeRow]) -> None:
        self._measure_size = measure
        self._rows: dict[int, SizeRow] = {}

    @property
    def rows(self) -> list[SizeRow]:
        """Sizes from the smallest on."""
        return [self._rows[size] for size in sorted(self._rows)]

    @property
    def best(self) -> float:
        """Most examples a second of any size so far."""
        return max((row.rate for row in self._rows.values()), default=0.0)

    @property
    def chosen(self) -> SizeRow | None:
        """Smallest size that is fast enough among those so far; None where none was measured."""
        return next((row for row in self.rows if row.rate and row.rate >= ENOUGH * self.best), None)

    def run(self, start: int, most: int | None) -> None:
        """Measure sizes until one is chosen; whatever `measure` raises goes through."""
        size, too_large = start, None
        while self._measure(size).is_out_of_memory and size > 1:
            too_large, size = size, size // 2
        if self._rows[size].failed:
            return
        if too_large is None:
            size, too_large = self._grow(size, most)
        if too_large is not None:
            self._between(size, too_large, lambda row: row.failed is None)
        chosen = self.chosen
        below = max((row.size for row in self.rows if chosen and row.size < chosen.size), default=None)
        if chosen is not None and below is not None:
            self._between(below, chosen.size, lambda row: row.rate < ENOUGH * self.best)

    def _grow(self, size: int, most: int | None) -> tuple[int, int | None]:
        """Double a size. Return the largest that ran, and the one that did not if speed grew until then."""
        in_vain = 0
        while in_vain < _IN_VAIN and (most is None or size < most):
            before = self.best
            row = self._measure(2 * size if most is None else min(2 * size, most))
            if row.failed:
                return size, None if in_vain else row.size
            size, in_vain = row.size, 0 if ENOUGH * row.rate > before else in_vain + 1
        return size, None

    def _between(self, low: int, high: int, is_low: Callable[[SizeRow], bool]) -> None:
        """Halve the distance of two sizes until they are near each other."""
        while high - low > _NEAR * low and high - low > 1:
            middle = (low + high) // 2
            row = self._measure(middle)
            low, high = (middle, high) if is_low(row) else (low, middle)

    def _measure(self, size: int) -> SizeRow:
        if size not in self._rows:
            self.add(self._measure_size(size))
        return self._rows[size]

    def add(self, row: SizeRow) -> None:
        """Take a size in, or more runs of it."""
        self._rows[row.size] = row


def with_head_room(size: int, devices: int) -> int:
    """Return a size with a tenth more examples, that its devices can share."""
    tenths = -(-size * 11 // 10)
    return -(-tenths // devices) * devices
