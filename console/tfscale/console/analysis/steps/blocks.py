"""Blocks: steps condensed into short stretches of time, the straggler rule's memory of minutes at any step rate.

Each step is read once, when its block is complete, so that the cost of an evaluation does not grow with the memory.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats, Integers
from tfscale.console.analysis.steps.phases import (
    longest_lag,
    medians,
    others_median,
    transfer,
    with_medians_for_unknown,
)

WINDOW = 20
"""Blocks in a window. A block has at least one step, so that a window has at least 20."""
KEEP = 1200
"""Blocks that are remembered: 60 windows, 5 to 10 minutes. Bursts of noise are learned from them: a shorter memory
forgets the bursts of a minute ago, a longer one keeps those of another time of the day."""
TINY = 1e-6
"""Seconds that replace a shorter lag: the logarithm of 0 does not exist."""
SECOND = 1.0
"""Least length of a block of `cut_second`: shorter ones hold the noise of few steps, longer ones hide a pause."""


def cut_second(ends: Floats, begin: float, least: int = 1) -> int | None:
    """Return how many of the next steps complete a block that began at `begin`; None while the block is open.

    A block lasts a second or more.

    Args:
        ends: (k,) Unix seconds at which the next steps end, in order.
        begin: Unix seconds.
        least: steps that the block still lacks of its least number.
    """
    count = max(int(np.searchsorted(ends, begin + SECOND)) + 1, least)
    return count if count <= len(ends) else None


class RowHistory:
    """The newest `most` rows of a (N, n) series; reading it copies nothing."""

    def __init__(self, width: int, most: int = KEEP) -> None:
        self._rows = np.empty((0, width), np.float64 if width == 1 else np.float32)
        self._most = most
        self._stop = 0

    @property
    def rows(self) -> Floats:
        """(<= most, n) view of the newest rows."""
        return self._rows[max(0, self._stop - self._most) : self._stop]

    def append(self, rows: Floats) -> None:
        stop = self._stop + len(rows)
        if stop > len(self._rows):
            old = self.rows
            stop = len(old) + len(rows)
            grown = np.empty((stop + min(stop, KEEP // 4), self._rows.shape[1]), self._rows.dtype)
            grown[: len(old)] = old
            self._rows = grown
        self._rows[stop - len(rows) : stop] = rows
        self._stop = stop

    def keep(self, columns: list[int]) -> None:
        """Keep these columns only."""
        self._rows, self._stop = np.ascontiguousarray(self.rows[:, columns]), len(self.rows)


class Blocks:
    """The blocks of one set of n subjects since their attempt began, N so far."""

    def __init__(self, subjects: tuple[str, ...], window: float, cut: Collection[str] = ()) -> None:
        self.subjects = subjects
        self._cut = frozenset(cut)
        """Subjects that made steps before the first block which are not known."""
        self.length = window / WINDOW
        """Seconds of a block; where a step takes longer, a block is one step."""
        self.consumed = -1
        """Sequence of the newest step that is in a block."""
        self._origin: float | None = None
        """End of the first step, Unix seconds: blocks begin at whole lengths after it."""
        self._histories: list[RowHistory] = []
        self._lag, self._level, self._mean_level = self._series(WINDOW), self._series(), self._series()
        self._end, self._step, self._spread = RowHistory(1), RowHistory(1), RowHistory(1)

    def __len__(self) -> int:
        return len(self._end.rows)

    @property
    def end(self) -> Floats:
        """(N,) Unix seconds at which each block's last step ended."""
        return self._end.rows[:, 0]

    def is_cut(self, column: int) -> bool:
        """Decide whether this subject made steps before the first block."""
        return len(self) >= KEEP or self.subjects[column] in self._cut

    def begin(self, block: int) -> float:
        """Return when this block (0 <= block < N) began, Unix seconds."""
        return float(self.end[block - 1] if block else self.end[0] - self.step[0])

    @property
    def lag(self) -> Floats:
        """(<= WINDOW, n) median lags of the newest blocks, seconds."""
        return self._lag.rows

    @property
    def level(self) -> Floats:
        """(N, n) medians of log r, the log of a subject's lag over the median lag of the others."""
        return self._level.rows

    @property
    def mean_level(self) -> Floats:
        """(N, n) logs of a subject's mean lag over the median of the others' mean lags; empty where it is not kept.

        A slowness in less than half of the steps shows here alone.
        """
        return self._mean_level.rows

    @property
    def step(self) -> Floats:
        """(N,) median step times, seconds."""
        return self._step.rows[:, 0]

    @property
    def stretch(self) -> float:
        """Duration of a block over `length`; more than 1 only where one step takes longer than that."""
        return max(1.0, float(np.median(self.step[-WINDOW:])) / self.length)

    @property
    def spread(self) -> Floats:
        """(N,) medians of the share of the step by which its slowest subject exceeds the others' median."""
        return self._spread.rows[:, 0]

    def part(self, column: int) -> float:
        """Return the share of the step that is this subject's lag, in the newest window."""
        return float(np.median(self.lag[-WINDOW:, column]) / np.median(self.step[-WINDOW:]))

    def append(self, aligned: AlignedSteps) -> None:
        """Append the steps since the last call, except those of the still open block."""
        fresh = aligned.after(self.consumed)
        if len(fresh) == 0:
            return
        if self._origin is None:
            self._origin = float(fresh.end[0])
        edges = np.flatnonzero(np.diff(np.floor((fresh.end - self._origin) / self.length))) + 1
        if len(self) and self.step[-1] >= self.length:
            # Steps longer than a block: the next one cannot belong to the same block.
            edges = np.append(edges, len(fresh))
        if len(edges) == 0:
            return
        self._condense(fresh, edges)
        self.consumed = int(fresh.sequence[edges[-1] - 1])

    def forget(self, subjects: set[str]) -> None:
        """Forget these subjects, and keep the history of the others."""
        remaining = [column for column, subject in enumerate(self.subjects) if subject not in subjects]
        self.subjects = tuple(self.subjects[column] for column in remaining)
        for history in self._histories:
            history.keep(remaining)

    def take_out(self, column: int, begin: float, end: float, least: int) -> None:
        """Take out of the levels that a subject was slow from `begin` to `end`, Unix seconds: that is no noise.

        A slowness of less than `least` blocks stays. Among three, one slow subject moves the others' levels too.
        """
        first, stop = np.searchsorted(self.end, [begin, end], side="right")
        if stop - first < least:
            return
        columns = [column] if len(self.subjects) > 3 else list(range(len(self.subjects)))
        for rows in (self.level, self.mean_level):
            if len(rows):
                usual = np.median(rows[:first, columns], axis=0) if first else 0.0
                rows[first:stop, columns] += usual - np.median(rows[first:stop, columns], axis=0)

    def _series(self, most: int = KEEP) -> RowHistory:
        """Return a new history with a column for each subject."""
        self._histories.append(RowHistory(len(self.subjects), most))
        return self._histories[-1]

    def _condense(self, fresh: AlignedSteps, edges: Integers) -> None:
        own = fresh.lag[: edges[-1]]
        lag = np.maximum(with_medians_for_unknown(own), TINY)
        peers = others_median(lag)
        network = transfer(fresh.reduce[: edges[-1]])
        step = longest_lag(lag) + network
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
            history.append(self._carried_forward(history, np.stack([medians(columns[part]) for part in parts])))
        mean = np.add.reduceat(lag, starts, axis=0) / np.diff([*starts, edges[-1]])[:, None]
        self._mean_level.append(np.log(mean / others_median(mean)))

    @staticmethod
    def _carried_forward(history: RowHistory, rows: Floats) -> Floats:
        """Return the rows with unknown values replaced by the value of the row before.

        A missing report is news neither of a slowdown nor of its end.
        """
        if np.isnan(rows).any():
            before = history.rows[-1] if len(history.rows) else np.zeros(rows.shape[1])
            for row in rows:
                np.copyto(row, before, where=np.isnan(row))
                before = row
        return rows
