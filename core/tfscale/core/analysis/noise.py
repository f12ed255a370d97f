"""How far the median of a window wanders by chance, when neighbouring steps resemble each other.

Host noise lasts for seconds, so that a thousand quick steps may be worth a handful of independent ones. The spread is
read from differences (a variogram), which a lasting slowdown within the data hardly touches, and carried to the
window with the formula of a first-order autoregression, at several block sizes, the most doubtful of which counts.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from tfscale.core.analysis.steps import Floats

_FEWEST = 24
"""Blocks below which a coarser block size says nothing."""
_ENOUGH = 60
"""Blocks from which on their plain spread is a bound."""
_MEDIAN = 1.15
"""A median wanders more than a mean: 1.25 times for normal noise, less for heavier tails."""


def wander(levels: Floats, length: int, onset: int) -> tuple[Floats, float]:
    """((n,) standard errors of the median of `length` blocks, degrees of freedom) from (N, n) block values.

    `onset` is the block from which on somebody may be slower: the step between it and the one before is no noise.
    """
    before, after = _tamed(levels[:onset]), _tamed(levels[onset:])
    error, size, freedom = np.zeros(levels.shape[1]), 1, 1.0
    while size == 1 or (len(levels) // size >= _FEWEST and length >= 2 * size):
        parts = [part for part in (_coarse(before, size), _coarse(after, size)) if len(part) >= 3]
        if parts:
            error = np.maximum(error, _autoregressive(parts, length / size))
        freedom = max(freedom, len(levels) // size - 2.0)
        size *= 2
    if len(before) >= _ENOUGH:
        error = np.minimum(error, 1.5 * before.std(axis=0).max())
    return error * _MEDIAN, freedom


def quantile(chance: float, freedom: float) -> float:
    """Student's t that is exceeded with `chance`, by Wallace's approximation (1959)."""
    z = NormalDist().inv_cdf(1 - chance) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(min(z * z / freedom, 50.0)))


def _coarse(values: Floats, size: int) -> Floats:
    count = len(values) // size
    return np.asarray(values[len(values) - count * size :].reshape(count, size, values.shape[1]).mean(axis=1))


def _autoregressive(parts: list[Floats], length: float) -> Floats:
    """(n,) standard errors of the mean of `length` values, from their spread at distance 1 and 2; pooled over n."""
    near = _spread(np.concatenate([np.diff(part, axis=0) for part in parts]))
    far = _spread(np.concatenate([part[2:] - part[:-2] for part in parts]))
    pooled = max(float(near.mean()), 1e-12)
    estimate = min(max(0.0, float(far.mean()) / pooled - 1), 0.98)
    doubt = math.sqrt((1 - estimate**2) / sum(part.size for part in parts)) + 2 / sum(map(len, parts))
    memory = min(estimate + doubt, 0.98)
    variance = np.maximum(near, pooled) / (2 * (1 - estimate))
    return np.asarray(np.sqrt(variance * _of_mean(memory, length)))


def _of_mean(memory: float, length: float) -> float:
    """Variance of the mean of `length` values of a unit-variance first-order autoregression."""
    inflation = (1 + memory) / (1 - memory)
    finite = 2 * memory * (1 - memory**length) / (length * (1 - memory) ** 2)
    return float(np.clip((inflation - finite) / length, 0.0, 1.0))


def _spread(differences: Floats) -> Floats:
    """(n,) mean squares."""
    return np.asarray((differences**2).mean(axis=0))


def _tamed(values: Floats) -> Floats:
    """Single steps far out hardly move a median; what is beyond 4 robust deviations is pulled in."""
    if len(values) == 0:
        return values
    centre = np.median(values, axis=0)
    reach = 4 * 1.4826 * np.median(np.abs(values - centre), axis=0)
    return np.asarray(np.clip(values, centre - reach, centre + reach))


def longest_spell(levels: Floats, column: int, onset: int, threshold: float, ignore: int) -> int:
    """The most blocks in a row that anybody was above the threshold, other than `column` since its `onset`.

    How long this cluster's noise is known to last. Spells of `ignore` blocks and more were real slowdowns.
    """
    above = levels > threshold
    above[onset:, column] = False
    change = np.flatnonzero(np.diff(np.pad(above, ((1, 1), (0, 0))).astype(np.int8).T.ravel()))
    lengths = change[1::2] - change[::2]
    return int(lengths[lengths < ignore].max(initial=0))
