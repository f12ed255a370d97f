"""Time lost to slow subjects: the step time minus the step time without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.phases import longest_lag, transfer

PEERS = 48
"""Most peers that stand for all: at a noise of 5 % their median is within 1 %; more cost more, and fewer are
noisier."""


def slowdown(lag: Floats, reduce: Floats, culprits: Sequence[int]) -> float:
    """Return the factor by which the culprits (columns) together lengthen the mean step; >= 1.

    The comparison has each culprit as fast as its peers. `lag` and `reduce` are (k, n) seconds. Means are used and not
    medians: a median shows nothing, or all, of a loss in a third of the steps.
    """
    peers = [column for column in range(lag.shape[1]) if column not in culprits]
    if not culprits or not peers:
        return 1.0
    network = transfer(reduce)
    pool = np.sort(lag[:, even_sample(peers)], axis=None)
    repaired = np.stack([_as_fast_as(pool, lag[:, column]) for column in culprits], axis=1)
    without = network + np.fmax(longest_lag(lag[:, peers]), longest_lag(repaired))
    return max(1.0, float(np.nanmean(network + longest_lag(lag)) / np.nanmean(without)))


def _as_fast_as(pool: Floats, lag: Floats) -> Floats:
    """Return (k,) lags distributed as the sorted `pool` of the peers', each at the rank of the culprit's own.

    The median of the peers in its place would leave out the repaired subject's noise: the later of two is later than a
    single one.
    """
    pool, known = pool[np.isfinite(pool)], np.flatnonzero(np.isfinite(lag))
    repaired = np.full(len(lag), np.nan)
    if len(pool) and len(known):
        places = (np.arange(len(known)) + 0.5) / len(known) * len(pool)
        repaired[known[np.argsort(lag[known], kind="stable")]] = pool[places.astype(int)]
    return repaired


def even_sample(columns: Sequence[int]) -> list[int]:
    """Return the columns, of very many an even sample."""
    return list(columns[:: -(-len(columns) // PEERS) or 1])
