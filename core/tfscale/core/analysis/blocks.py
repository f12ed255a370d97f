"""Steps condensed into short blocks of time: what the straggler rule remembers of minutes, at any step rate.

Each step is looked at once, when its block is whole, so that the cost of a look does not grow with what is remembered.
"""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.phases import excess, medians, relative, transfer
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
        share = excess(lag) / np.maximum(step, 1e-9)
        columns = np.column_stack([lag, np.log(relative(lag)), step, share])
        starts = [0, *edges[:-1]]
        rows = np.stack([medians(columns[start:stop]) for start, stop in zip(starts, edges, strict=True)])
        n = len(self.subjects)
        self.end = _grown(self.end, fresh.end[edges - 1])
        self.lag = _grown(self.lag, rows[:, :n])
        self.level = _grown(self.level, rows[:, n : 2 * n])
        self.step = _grown(self.step, rows[:, -2])
        self.spread = _grown(self.spread, rows[:, -1])
        self.consumed = int(fresh.sequence[edges[-1] - 1])


def _grown(column: Floats, rows: Floats) -> Floats:
    return np.concatenate([column, rows.astype(column.dtype)])[-KEEP:]
