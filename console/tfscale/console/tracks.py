"""A few numbers of each of many tasks for each of the last minutes' seconds, in blocks that come and go as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 60
"""Seconds that are allocated at a time."""
_FINE = 2
"""Blocks before the newest one that stay as they are."""


@dataclass(frozen=True, slots=True)
class Grain:
    """Seconds that have one place, each a part of BLOCK: of the newest minutes, and of those before."""

    newest: int = 1
    older: int = 1


class Places(NamedTuple):
    """Where some of many values belong."""

    block: NDArray[np.float32]
    """(columns, tasks, places)"""
    mine: NDArray[np.intp]
    """Which of the values."""
    within: NDArray[np.int64]
    """The place of each."""
    share: float
    """Of a place that one of `Grain.newest` makes up."""


class Tracks:
    """`columns` numbers of `tasks` tasks; NaN unknown. Where places are put together they become means of what is
    known, of the columns in `largest` the largest."""

    def __init__(self, columns: int, tasks: int, grain: Grain, seconds: int, largest: Iterable[int] = ()) -> None:
        self.grain = grain
        self._seconds = seconds
        """How far back it goes."""
        self._largest = list(largest)
        self._blocks: dict[int, NDArray[np.float32]] = {}
        self._unknown = np.broadcast_to(np.float32(np.nan), (columns, tasks, BLOCK // grain.newest))

    def places(self, second: NDArray[np.int64], newest: float) -> Iterable[Places]:
        """Where what was at these seconds is to be kept; what is too old or not yet is left out."""
        number = second // BLOCK
        for each in sorted(set(number.tolist())):
            if newest - self._seconds < (each + 1) * BLOCK and each * BLOCK <= newest + BLOCK:
                block = self._blocks.get(each)
                if block is None:
                    block = self._blocks[each] = np.full(self._unknown.shape, np.nan, np.float32)
                mine = np.flatnonzero(number == each)
                grain = _grain(block)
                yield Places(block, mine, (second[mine] - each * BLOCK) // grain, self.grain.newest / grain)

    def taken(self, who: int | slice | NDArray[np.int64], last: int, span: int) -> NDArray[np.float32]:
        """(columns, span) of one task or (columns, n, span) of several, in the `span` seconds before `last`."""
        parts: list[NDArray[np.float32]] = []
        first = last - span
        while first < last:
            number, offset = divmod(first, BLOCK)
            stop = min(BLOCK, offset + last - first)
            block = self._blocks.get(number, self._unknown)
            within = slice(offset, stop) if _grain(block) == 1 else np.arange(offset, stop) // _grain(block)
            parts.append(block[:, who][..., within])
            first += stop - offset
        return np.concatenate(parts, axis=-1)

    def forget(self, newest: float) -> None:
        """Leave out what is too old by now, and put together what is no longer new."""
        oldest, fine = int(newest - self._seconds) // BLOCK, int(newest) // BLOCK - _FINE
        for number, block in list(self._blocks.items()):
            if number < oldest:
                del self._blocks[number]
            elif number < fine and _grain(block) < self.grain.older:
                self._blocks[number] = self._coarse(block)

    def _coarse(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        parts = block.reshape(*block.shape[:2], BLOCK // self.grain.older, -1)
        known = ~np.isnan(parts)
        with np.errstate(invalid="ignore"):
            coarse = np.asarray(np.where(known, parts, 0.0).sum(axis=-1) / known.sum(axis=-1), np.float32)
        coarse[self._largest] = np.fmax.reduce(parts[self._largest], axis=-1)
        return coarse


def _grain(block: NDArray[np.float32]) -> int:
    return BLOCK // int(block.shape[-1])
