"""The arithmetic of a step on its workers' own clocks: no synchronised clocks are needed.

For one blocking collective, transfer(s) = min over workers of reduce_w(s) is what the network costs everybody and
wait_w(s) = reduce_w(s) - transfer(s) what w loses waiting for somebody slower.
"""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.steps.step_table import Floats


def medians(values: Floats, axis: int = 0) -> Floats:
    """Medians along an axis, of what is known: NaN where nothing is.

    One sort is several times quicker than numpy's own for the few rows here.
    """
    ranked = np.sort(values, axis=axis)
    count = ranked.shape[axis]
    if not np.isnan(ranked.take(-1, axis)).any():
        return np.asarray((ranked.take((count - 1) // 2, axis) + ranked.take(count // 2, axis)) / 2)
    known = np.isfinite(ranked).sum(axis=axis, keepdims=True)
    low = np.take_along_axis(ranked, np.maximum(known - 1, 0) // 2, axis)
    high = np.take_along_axis(ranked, np.minimum(known // 2, count - 1), axis)
    return np.asarray((low + high).squeeze(axis) / 2)


def transfer(reduce: Floats) -> Floats:
    """(k,) seconds that the collective cost everybody, from the (k, n) seconds that each spent in it, NaN unknown."""
    return np.asarray(np.fmin.reduce(reduce, axis=1))


def longest(lag: Floats) -> Floats:
    """(k,) the largest of each row of (k, n) lags, NaN unknown."""
    return np.asarray(np.fmax.reduce(lag, axis=1))


def filled(values: Floats) -> Floats:
    """(..., n) values with the median of the row in place of what is not known."""
    missing = np.isnan(values)
    return np.where(missing, medians(values, axis=-1)[..., None], values) if missing.any() else values


def waits(reduce: Floats) -> Floats:
    """(k, n) seconds that each waited for somebody slower."""
    return reduce - transfer(reduce)[:, None]


def others_median(values: Floats) -> Floats:
    """(k, n) the median of the *other* subjects in the same row; n >= 2.

    One sort of each row serves all n of them: taking an element out shifts the ranks above it by one.
    """
    n = values.shape[1]
    if n == 2:
        return values[:, ::-1]
    ranked = np.sort(values, axis=1)

    def without_own(rank: int) -> Floats:
        return np.where(values <= ranked[:, rank, None], ranked[:, rank + 1, None], ranked[:, rank, None])

    low = without_own((n - 2) // 2)
    return low if n % 2 == 0 else (low + without_own((n - 1) // 2)) / 2


def excess(planes: Floats, column: int) -> Floats:
    """(p,) median seconds by which one subject exceeds the median of the others, from (p, k, n) phases; n >= 2."""
    extra = [plane[:, column] - others_median(filled(plane))[:, column] for plane in planes]
    return np.asarray(np.nanmedian(extra, axis=1))


def slowdown(lag: Floats, reduce: Floats, culprits: list[int]) -> float:
    """Median step time over what it would be with the culprits (columns) as fast as the median of their peers."""
    peers = [column for column in range(lag.shape[1]) if column not in culprits]
    if not culprits or not peers:
        return 1.0
    network = transfer(reduce)
    ideal = network + longest(lag[:, peers])
    return max(1.0, float(np.nanmedian(network + longest(lag)) / np.nanmedian(ideal)))
