"""A few numbers of each of many tasks for each of the last minutes' seconds, in blocks that come and go as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

BLOCK = 60
"""Seconds that are allocated at a time."""


class Tracks:
    """`columns` numbers of `tasks` tasks, of `every` seconds one, which is a part of BLOCK; NaN unknown."""

    def __init__(self, columns: int, tasks: int, every: int, seconds: int) -> None:
        self.every = every
        self._seconds = seconds
        """How far back it goes."""
        self._blocks: dict[int, NDArray[np.float32]] = {}
        self._unknown = np.broadcast_to(np.float32(np.nan), (columns, tasks, BLOCK // every))

    def places(
        self, second: NDArray[np.int64], newest: float
    ) -> Iterable[tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.int64]]]:
        """Blocks, which of the seconds lie in each, and where there; what is too old or not yet is left out."""
        number = second // BLOCK
        for each in sorted(set(number.tolist())):
            if newest - self._seconds < (each + 1) * BLOCK and each * BLOCK <= newest + BLOCK:
                block = self._blocks.get(each)
                if block is None:
                    block = self._blocks[each] = np.full(self._unknown.shape, np.nan, np.float32)
                mine = np.flatnonzero(number == each)
                yield block, mine, (second[mine] - each * BLOCK) // self.every

    def taken(self, who: int | slice | NDArray[np.int64], last: int, span: int) -> NDArray[np.float32]:
        """(columns, span) of one task or (columns, n, span) of several, in the `span` seconds before `last`."""
        parts: list[NDArray[np.float32]] = []
        first = last - span
        while first < last:
            number, offset = divmod(first, BLOCK)
            stop = min(BLOCK, offset + last - first)
            within = slice(offset, stop) if self.every == 1 else np.arange(offset, stop) // self.every
            parts.append(self._blocks.get(number, self._unknown)[:, who][..., within])
            first += stop - offset
        return np.concatenate(parts, axis=-1)

    def forget(self, newest: float) -> None:
        """Leave out what is too old by now."""
        oldest = int(newest - self._seconds) // BLOCK
        for number in [number for number in self._blocks if number < oldest]:
            del self._blocks[number]
