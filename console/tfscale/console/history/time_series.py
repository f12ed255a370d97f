"""Time series: some numbers of each task for each of the last minutes' seconds, stored in blocks of a minute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 60
"""Seconds of one block."""
_FINE = 2
"""Number of blocks before the newest that keep their resolution."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Seconds of a slot, divisors of BLOCK: in the newest minutes, and before them."""

    newest: int = 1
    older: int = 1


class Slots(NamedTuple):
    """Slots of one block for some of many values."""

    block: NDArray[np.float32]
    """(columns, tasks, slots)"""
    chosen: NDArray[np.intp]
    """Indices of the values that belong to the block."""
    slot: NDArray[np.int64]
    """Slot of each of these values."""
    weight: float
    """Weight of one fine slot within a slot of the block."""


class SeriesStore:
    """`columns` numbers of `tasks` tasks for each second; NaN unknown.

    Where slots are merged a column becomes the mean of its known values, a column in `largest` their maximum.
    """

    def __init__(
        self, columns: int, tasks: int, resolution: Resolution, seconds: int, largest: Iterable[int] = ()
    ) -> None:
        self.resolution = resolution
        self._seconds = seconds
        """Seconds that are kept."""
        self._largest = list(largest)
        self._blocks: dict[int, NDArray[np.float32]] = {}
        self._unknown = np.broadcast_to(np.float32(np.nan), (columns, tasks, BLOCK // resolution.newest))

    def slots(self, second: NDArray[np.int64], newest: float) -> Iterable[Slots]:
        """Yield the slots for values of these Unix seconds; values too old, or in the future, are left out."""
        numbers = second // BLOCK
        for number in sorted(set(numbers.tolist())):
            if newest - self._seconds < (number + 1) * BLOCK and number * BLOCK <= newest + BLOCK:
                block = self._blocks.get(number)
                if block is None:
                    block = self._blocks[number] = np.full(self._unknown.shape, np.nan, np.float32)
                chosen, length = np.flatnonzero(numbers == number), _slot_seconds(block)
                slot = (second[chosen] - number * BLOCK) // length
                yield Slots(block, chosen, slot, self.resolution.newest / length)

    def read(self, task: int | slice | NDArray[np.int64], last: int, span: int) -> NDArray[np.float32]:
        """Return (columns, span) of one task or (columns, n, span) of several: the `span` seconds before `last`."""
        parts: list[NDArray[np.float32]] = []
        first = last - span
        while first < last:
            number, offset = divmod(first, BLOCK)
            stop = min(BLOCK, offset + last - first)
            block = self._blocks.get(number, self._unknown)
            length = _slot_seconds(block)
            # First what is a view and not a copy: the slots of a fine block, the task of a coarse one.
            if length == 1:
                parts.append(block[..., offset:stop][:, task])
            else:
                parts.append(block[:, task][..., np.arange(offset, stop) // length])
            first += stop - offset
        return np.concatenate(parts, axis=-1)

    def forget(self, newest: float) -> None:
        """Drop blocks that are too old, and merge the slots of blocks that are no longer new."""
        oldest, fine = int(newest - self._seconds) // BLOCK, int(newest) // BLOCK - _FINE
        for number, block in list(self._blocks.items()):
            if number < oldest:
                del self._blocks[number]
            elif number < fine and _slot_seconds(block) < self.resolution.older:
                self._blocks[number] = self._coarse(block)

    def _coarse(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        parts = block.reshape(*block.shape[:2], BLOCK // self.resolution.older, -1)
        is_known = ~np.isnan(parts)
        with np.errstate(invalid="ignore"):
            coarse = np.asarray(np.where(is_known, parts, 0.0).sum(axis=-1) / is_known.sum(axis=-1), np.float32)
        coarse[self._largest] = np.fmax.reduce(parts[self._largest], axis=-1)
        return coarse


def _slot_seconds(block: NDArray[np.float32]) -> int:
    return BLOCK // int(block.shape[-1])
