"""Time lost to slow subjects: the step time minus the step time without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.phases import longest_lag, transfer

PEERS = 48
"""Peers, at most, that stand for all (chosen: the median of so many is within 1 % at a noise of 5 %)."""


def slowdown(lag: Floats, reduce: Floats, culprits: Sequence[int]) -> float:
    """Return the factor by which the culprits (columns) together lengthen the mean step; >= 1.

    It is compared with steps in which each culprit is as fast as its peers. `lag` and `reduce` are (k, n) seconds. It
    takes means and no medians: of time that is lost in a third of the steps a median shows nothing, or all.
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
    """Return (k,) lags distributed as the sorted `pool` of the peers', each where the culprit's own has that rank.

    The median of the peers in its place would leave out the noise of the repaired subject: the later of two is later
    than one of them.
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
