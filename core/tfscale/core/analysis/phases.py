"""The arithmetic of a step on its workers' own clocks: no synchronised clocks are needed.

For one blocking collective, transfer(s) = min over workers of reduce_w(s) is what the network costs everybody and
wait_w(s) = reduce_w(s) - transfer(s) what w loses waiting for somebody slower.
"""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.steps import Floats

_TINY = 1e-6


def medians(values: Floats) -> Floats:
    """(n,) medians of the columns of (k, n) known values; several times quicker than numpy's for the few rows here."""
    ranked = np.sort(values, axis=0)
    return np.asarray((ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2)


def transfer(reduce: Floats) -> Floats:
    """(k,) seconds that the collective cost everybody, from the (k, n) seconds that each spent in it."""
    return np.asarray(reduce.min(axis=1))


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


def relative(lag: Floats) -> Floats:
    """(k, n) each lag over the median of the others' in the same step."""
    return np.maximum(lag, _TINY) / np.maximum(others_median(lag), _TINY)


def excess(lag: Floats) -> Floats:
    """(k,) seconds that the slowest of a step took longer than the median of the others."""
    ranked = np.sort(lag, axis=1)
    others = lag.shape[1] - 1
    return np.asarray(ranked[:, -1] - (ranked[:, (others - 1) // 2] + ranked[:, others // 2]) / 2)


def slowdown(lag: Floats, reduce: Floats, culprits: list[int]) -> float:
    """Median step time over what it would be with the culprits (columns) as fast as the median of their peers."""
    peers = [column for column in range(lag.shape[1]) if column not in culprits]
    if not culprits or not peers:
        return 1.0
    network = transfer(reduce)
    ideal = network + lag[:, peers].max(axis=1)
    return max(1.0, float(np.median(network + lag.max(axis=1)) / np.median(ideal)))
