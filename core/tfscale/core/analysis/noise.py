"""How far the median of a window wanders by chance, when neighbouring steps resemble each other.

Host noise lasts for seconds, so that a thousand quick steps may be worth a handful of independent ones. The spread is
read from differences (a variogram), which a persistent slowdown within the data hardly touches, and carried to the
window with the formula of a first-order autoregression, at several block sizes, the most doubtful of which counts.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from tfscale.core.analysis.steps import Floats

_FEWEST = 10
"""Blocks below which a coarser block size says nothing."""
_MEDIAN = 1.15
"""A median wanders more than a mean: 1.25 times for normal noise, less for heavier tails."""


def wander(blocks: Floats, length: int) -> tuple[Floats, float]:
    """((n,) standard errors of the median of `length` blocks, degrees of freedom) from (N, n) block values."""
    error, size, freedom = np.zeros(blocks.shape[1]), 1, 1.0
    while len(blocks) // size >= _FEWEST and length >= 2 * size:
        count = len(blocks) // size
        coarse = blocks[len(blocks) - count * size :].reshape(count, size, -1).mean(axis=1)
        error = np.maximum(error, _autoregressive(coarse, length / size))
        freedom = max(freedom, count - 2.0)
        size *= 2
    return error * _MEDIAN, freedom


def quantile(chance: float, freedom: float) -> float:
    """Student's t that is exceeded with `chance`, by Wallace's approximation (1959)."""
    z = NormalDist().inv_cdf(1 - chance) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(min(z * z / freedom, 50.0)))


def _autoregressive(values: Floats, length: float) -> Floats:
    """(n,) standard errors of the mean of `length` values, from their spread at distance 1 and 2; pooled over n."""
    near, far = _spread(np.diff(values, axis=0)), _spread(values[2:] - values[:-2])
    pooled = max(float(near.mean()), 1e-12)
    estimate = float(far.mean()) / pooled - 1
    memory = float(np.clip(estimate + 1 / math.sqrt(values.size / 2), 0.0, 0.98))
    variance = np.maximum(near, pooled) / (2 * (1 - min(memory, max(0.0, estimate))))
    return np.sqrt(variance * _of_mean(memory, length))


def _of_mean(memory: float, length: float) -> float:
    """Variance of the mean of `length` values of a unit-variance first-order autoregression."""
    inflation = (1 + memory) / (1 - memory)
    finite = 2 * memory * (1 - memory**length) / (length * (1 - memory) ** 2)
    return float(np.clip((inflation - finite) / length, 0.0, 1.0))


def _spread(differences: Floats) -> Floats:
    """(n,) mean squares, with what is beyond 3 robust deviations pulled in: onsets and ends of slowdowns."""
    centre = np.median(np.abs(differences), axis=0) * 1.4826
    return np.asarray((np.minimum(np.abs(differences), 3 * centre + 1e-9) ** 2).mean(axis=0))
