"""Steps condensed into short blocks of time: what the straggler rule remembers of minutes, at any step rate.

Each step is looked at once, when its block is whole, so that the cost of a look does not grow with what is remembered.
"""

from __future__ import annotations

import numpy as np

from tfscale.core.analysis.phases import excess, relative, transfer
from tfscale.core.analysis.steps import Aligned, Floats

WINDOW = 20
"""Blocks in a window. A block has at least one step, so that a window has at least 20."""
KEEP = 1200
"""Blocks remembered: 60 windows."""


class Blocks:
    """The history of one set of subjects (n of them) since their attempt began, N blocks so far."""

    def __init__(self, subjects: tuple[str, ...], window: float) -> None:
        n = len(subjects)
        self.subjects = subjects
        self.length = window / WINDOW
        """Seconds of a block; one step where steps are longer."""
        self.end: Floats = np.empty(0)
        """(N,) when each block's last step ended."""
        self.lag: Floats = np.empty((0, n), np.float32)
        """(N, n) median lags, seconds."""
        self.level: Floats = np.empty((0, n), np.float32)
        """(N, n) medians of the log of the relative lag."""
        self.step: Floats = np.empty(0)
        """(N,) median step times, seconds."""
        self.spread: Floats = np.empty(0)
        """(N,) medians of the share of the step by which its slowest exceeds the others' median."""
        self.consumed = -1
        """The newest collective that is in a block."""

    def __len__(self) -> int:
        return len(self.end)

    def fold(self, aligned: Aligned) -> None:
        """Take in the steps that came since the last call, but for those of the block that is still open."""
        fresh = aligned.after(self.consumed)
        edges = np.flatnonzero(np.diff(np.floor(fresh.end / self.length))) + 1
        if len(edges) == 0:
            return
        lag = fresh.lag
        step = lag.max(axis=1) + transfer(fresh.reduce)
        level, spread = np.log(relative(lag)), excess(lag) / np.maximum(step, 1e-9)
        parts = [slice(start, stop) for start, stop in zip([0, *edges[:-1]], edges, strict=True)]
        self.end = self._grown(self.end, [fresh.end[part][-1] for part in parts])
        self.lag = self._grown(self.lag, [np.median(lag[part], axis=0) for part in parts])
        self.level = self._grown(self.level, [np.median(level[part], axis=0) for part in parts])
        self.step = self._grown(self.step, [np.median(step[part]) for part in parts])
        self.spread = self._grown(self.spread, [np.median(spread[part]) for part in parts])
        self.consumed = int(fresh.sequence[edges[-1] - 1])

    @staticmethod
    def _grown(column: Floats, values: list[Floats]) -> Floats:
        return np.asarray(np.concatenate([column, np.asarray(values, dtype=column.dtype)])[-KEEP:])
