"""Clocks of hosts whose workers meet in one all-reduce, brought to one axis by its ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats

_KEPT_SECONDS, _FEWEST = 10.0, 5
"""Seconds, and at least so many steps, over whose median a clock is aligned: it drifts, and may be set."""
_SET = 3.0
"""Multiple of a clock's error by which it moves only if it is set (chosen; where it was not, less is remembered)."""


class AlignedClocks:
    """Seconds by which the clock of each task is ahead of the axis, followed from step to step.

    No worker leaves an all-reduce before the last has entered it, so that all leave it within the transfer, and their
    ends of one all-reduce are taken as one moment. That moment is the median of the workers' ends, each on its clock as
    it was aligned before: the axis begins as the median of the clocks, and a host that comes, goes or sets its clock
    leaves the others where they are.
    """

    def __init__(self) -> None:
        self.ahead: dict[str, float] = {}
        """Seconds by task."""
        self.error: dict[str, float] = {}
        """Seconds by task within which its steps are where they are drawn: what 19 of 20 differ, and the transfer."""
        self._tasks: tuple[str, ...] = ()
        self._at: NDArray[np.float64] = np.empty(0)
        self._differences: NDArray[np.float64] = np.empty((0, 0))
        """(n, k) seconds by which the newest ends of each task are after the axis; NaN unknown."""

    def follow(self, tasks: Sequence[str], ends: NDArray[np.float64], transfer: Floats) -> None:
        """Take in (n, k) ends of k all-reduces, on the clock of each of n tasks, and (k,) transfers; NaN unknown."""
        if tuple(tasks) != self._tasks:
            self._forget(tuple(tasks))
        known = np.array([self.ahead.get(task, np.nan) for task in tasks])
        if np.isnan(known).all():
            known = np.zeros(len(known))
        at = _median(ends - known[:, None])
        is_told = ~np.isnan(at)
        if not is_told.any():
            return
        at, differences = at[is_told], ends[:, is_told] - at[is_told]
        self._forget_set_clocks(tasks, differences)
        self._at = np.concatenate([self._at, at])
        self._differences = np.concatenate([self._differences, differences], axis=1)
        self._prune()
        ahead = _median(self._differences.T)
        spread = np.nanmax(np.abs(self._differences - ahead[:, None]), axis=1, initial=0.0, where=self._usual(ahead))
        longest = float(np.nanmedian(transfer)) if not np.isnan(transfer).all() else 0.0
        for task, seconds, error in zip(tasks, ahead.tolist(), spread.tolist(), strict=True):
            if seconds == seconds:
                self.ahead[task], self.error[task] = seconds, error + longest

    def _forget(self, tasks: tuple[str, ...]) -> None:
        self._tasks, self._at = tasks, np.empty(0)
        self._differences = np.empty((len(tasks), 0))

    def _forget_set_clocks(self, tasks: Sequence[str], new: NDArray[np.float64]) -> None:
        """Forget what is known of clocks that have moved much further than they are uncertain: they were set."""
        ahead = np.array([self.ahead.get(task, np.nan) for task in tasks])
        error = np.array([self.error.get(task, np.nan) for task in tasks])
        self._differences[np.abs(_median(new.T) - ahead) > _SET * error] = np.nan

    def _prune(self) -> None:
        first = min(int(np.searchsorted(self._at, self._at[-1] - _KEPT_SECONDS)), len(self._at) - _FEWEST)
        if first > 0:
            self._at, self._differences = self._at[first:], self._differences[:, first:]

    def _usual(self, ahead: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return where (n, k) differences are among the 19 of 20 that are nearest to the median of their task."""
        far = np.abs(self._differences - ahead[:, None])
        ranks = np.argsort(np.argsort(far, axis=1), axis=1)
        return np.asarray(ranks < np.ceil(0.95 * (~np.isnan(far)).sum(axis=1, keepdims=True)))


def _median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the medians over the first axis; NaN where nothing is known."""
    known = ~np.isnan(values).all(axis=0)
    result = np.full(values.shape[1], np.nan)
    result[known] = np.nanmedian(values[:, known], axis=0)
    return result
