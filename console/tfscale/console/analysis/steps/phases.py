"""The arithmetic of a step's phases, each worker's on its own clock: no synchronised clocks are needed.

For one blocking collective of step s, transfer(s) = min over workers of reduce_w(s) is the time that the network takes
from every worker, and wait_w(s) = reduce_w(s) - transfer(s) the time that worker w waits for a slower one.
"""

from __future__ import annotations

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats


def medians(values: Floats, axis: int = 0) -> Floats:
    """Return the medians along an axis of the known values; NaN where none is known.

    Sorts once: several times quicker than `np.nanmedian` for the few rows here.
    """
    ranked = np.sort(values, axis=axis)
    count = ranked.shape[axis]
    if not np.isnan(ranked.take(-1, axis)).any():
        return np.asarray((ranked.take((count - 1) // 2, axis) + ranked.take(count // 2, axis)) / 2)
    count_known = np.isfinite(ranked).sum(axis=axis, keepdims=True)
    low = np.take_along_axis(ranked, np.maximum(count_known - 1, 0) // 2, axis)
    high = np.take_along_axis(ranked, np.minimum(count_known // 2, count - 1), axis)
    return np.asarray((low + high).squeeze(axis) / 2)


def transfer(reduce: Floats) -> Floats:
    """Return (k,) seconds that the network took from every worker, of (k, n) seconds in the collective, NaN unknown."""
    return np.asarray(np.fmin.reduce(reduce, axis=1))


def longest_lag(lag: Floats) -> Floats:
    """Return (k,) the largest value of each row of (k, n) lags, NaN unknown."""
    return np.asarray(np.fmax.reduce(lag, axis=1))


def with_medians_for_unknown(values: Floats) -> Floats:
    """Return (..., n) values with the median of the row in place of unknown values (NaN)."""
    missing = np.isnan(values)
    return np.where(missing, medians(values, axis=-1)[..., None], values) if missing.any() else values


def waits(reduce: Floats) -> Floats:
    """Return (k, n) seconds of each worker's wait for a slower one, from (k, n) seconds in the collective."""
    return reduce - transfer(reduce)[:, None]


def others_median(values: Floats) -> Floats:
    """Return (k, n): for each value the median of the *other* subjects in its row; n >= 2.

    One sort of each row serves all n subjects: leaving one value out shifts the ranks above it by one.
    """
    n = values.shape[1]
    if n == 2:
        return values[:, ::-1]
    ranked = np.sort(values, axis=1)

    def without_own(rank: int) -> Floats:
        return np.where(values <= ranked[:, rank, None], ranked[:, rank + 1, None], ranked[:, rank, None])

    low = without_own((n - 2) // 2)
    return low if n % 2 == 0 else (low + without_own((n - 1) // 2)) / 2
