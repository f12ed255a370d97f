"""Steps condensed into short blocks of time: what the straggler rule remembers of minutes, at any step rate.

Each step is looked at once, when its block is whole, so that the cost of a look does not grow with what is remembered.
"""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.steps.phases import filled, longest, medians, others_median, transfer
from tfscale.core.analysis.steps.step_table import Aligned, Floats, Integers

WINDOW = 20
"""Blocks in a window. A block has at least one step, so that a window has at least 20."""
KEEP = 1200
"""Blocks remembered: 60 windows."""
TINY = 1e-6
"""Seconds below which a lag is not told from none."""


class History:
    """The newest `most` rows of a (N, n) series. It grows in place, so that a look copies nothing."""

    def __init__(self, width: int, most: int = KEEP) -> None:
        self._rows = np.empty((0, width), np.float64 if width == 1 else np.float32)
        self._most = most
        self._stop = 0

    @property
    def rows(self) -> Floats:
        return self._rows[max(0, self._stop - self._most) : self._stop]

    def append(self, rows: Floats) -> None:
        stop = self._stop + len(rows)
        if stop > len(self._rows):
            kept = self.rows
            stop = len(kept) + len(rows)
            grown = np.empty((stop + min(stop, KEEP // 4), self._rows.shape[1]), self._rows.dtype)
            grown[: len(kept)] = kept
            self._rows = grown
        self._rows[stop - len(rows) : stop] = rows
        self._stop = stop

    def keep(self, columns: list[int]) -> None:
        """Forget the other columns."""
        self._rows, self._stop = np.ascontiguousarray(self.rows[:, columns]), len(self.rows)


class Blocks:
    """The history of one set of subjects (n of them) since their attempt began, N blocks so far."""

    def __init__(self, subjects: tuple[str, ...], window: float) -> None:
        self.subjects = subjects
        self.length = window / WINDOW
        """Seconds of a block; one step where steps are longer."""
        self.consumed = -1
        """The newest collective that is in a block."""
        self._origin: float | None = None
        self._each: list[History] = []
        self._lag, self._level = self._series(WINDOW), self._series()
        self._end, self._step, self._spread = History(1), History(1), History(1)

    def __len__(self) -> int:
        return len(self._end.rows)

    @property
    def end(self) -> Floats:
        """(N,) when each block's last step ended."""
        return self._end.rows[:, 0]

    def begin(self, block: int) -> float:
        """Return when this block (0 <= block < N) began, Unix seconds."""
        return float(self.end[block - 1] if block else self.end[0] - self.step[0])

    @property
    def lag(self) -> Floats:
        """(<= WINDOW, n) median lags of the newest blocks, seconds."""
        return self._lag.rows

    @property
    def level(self) -> Floats:
        """(N, n) medians of the log of the relative lag."""
        return self._level.rows

    @property
    def step(self) -> Floats:
        """(N,) median step times, seconds."""
        return self._step.rows[:, 0]

    @property
    def stretch(self) -> float:
        """How many times longer than `length` a block is, because one step takes so long."""
        return max(1.0, float(np.median(self.step[-WINDOW:])) / self.length)

    @property
    def spread(self) -> Floats:
        """(N,) medians of the share of the step by which its slowest exceeds the others' median."""
        return self._spread.rows[:, 0]

    def part(self, column: int) -> float:
        """Share of the step that is this subject's lag, of late."""
        return float(np.median(self.lag[-WINDOW:, column]) / np.median(self.step[-WINDOW:]))

    def fold(self, aligned: Aligned) -> None:
        """Take in the steps that came since the last call, but for those of the block that is still open."""
        fresh = aligned.after(self.consumed)
        if len(fresh) == 0:
            return
        if self._origin is None:
            self._origin = float(fresh.end[0])
        edges = np.flatnonzero(np.diff(np.floor((fresh.end - self._origin) / self.length))) + 1
        if len(self) and self.step[-1] >= self.length:
            # The next step cannot belong to the same block any more.
            edges = np.append(edges, len(fresh))
        if len(edges) == 0:
            return
        self._condense(fresh, edges)
        self.consumed = int(fresh.sequence[edges[-1] - 1])

    def forget(self, subjects: set[str]) -> None:
        """Remember the others only: that somebody left is no reason to forget them."""
        kept = [column for column, subject in enumerate(self.subjects) if subject not in subjects]
        self.subjects = tuple(self.subjects[column] for column in kept)
        for history in self._each:
            history.keep(kept)

    def _series(self, most: int = KEEP) -> History:
        """A history with a column for each subject."""
        self._each.append(History(len(self.subjects), most))
        return self._each[-1]

    def _condense(self, fresh: Aligned, edges: Integers) -> None:
        own = fresh.lag[: edges[-1]]
        lag = np.maximum(filled(own), TINY)
        peers = others_median(lag)
        network = transfer(fresh.reduce[: edges[-1]])
        step = longest(lag) + network
        share = np.max(lag - peers, axis=1) / step
        level = np.log(lag / peers)
        level[np.isnan(own)] = np.nan
        starts = [0, *edges[:-1]]
        parts = [slice(start, stop) for start, stop in zip(starts, edges, strict=True)]
        self._end.append(fresh.end[edges - 1][:, None])
        for history, columns in (
            (self._lag, lag),
            (self._level, level),
            (self._step, step[:, None]),
            (self._spread, share[:, None]),
        ):
            history.append(self._known(history, np.stack([medians(columns[part]) for part in parts])))

    @staticmethod
    def _known(history: History, rows: Floats) -> Floats:
        """Rows in which what is not known is as it was before: silence is neither news of a slowdown nor of its end."""
        if np.isnan(rows).any():
            before = history.rows[-1] if len(history.rows) else np.zeros(rows.shape[1])
            for row in rows:
                np.copyto(row, before, where=np.isnan(row))
                before = row
        return rows
