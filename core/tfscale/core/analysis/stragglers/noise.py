"""How far the middle of a window wanders by chance, when neighbouring steps resemble each other.

Host noise lasts for seconds, so that a thousand quick steps may be worth a handful of independent ones. The spread is
read on either side of the slowdown's onset, and carried to the window with the formula of a first-order
autoregression, at several block sizes, the most doubtful of which counts.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from tfscale.core.analysis.steps.step_table import Floats

_FEWEST = 24
"""Blocks below which a coarser block size says nothing."""
_TRIMMED = 1.03
"""The middle three fifths wander a little more than the mean of all."""


def margin(levels: Floats, length: int, onset: int, chance: float) -> Floats:
    """(n,) what the middle of `length` blocks exceeds with `chance` at most, from (N, n) block values.

    `onset` is the block from which on somebody may be slower: the step between it and the one before is no noise.
    """
    error, memory = wander(levels, length, onset)
    independent = len(levels) * (1 - memory**2) / (1 + memory**2) * min(max(1, levels.shape[1] - 1), 4)
    return error * quantile(chance, max(2.0, independent - 2))


def wander(levels: Floats, length: int, onset: int) -> tuple[Floats, float]:
    """((n,) standard errors of the middle of `length` blocks, correlation of neighbouring blocks)."""
    before, after = _tamed(levels[:onset]), _tamed(levels[onset:])
    error, finest, size = np.zeros(levels.shape[1]), 0.0, 1
    while size == 1 or (len(levels) // size >= _FEWEST and length >= 2 * size):
        parts = [part for part in (_coarse(before, size), _coarse(after, size)) if len(part) >= 3]
        coarse, memory = _autoregressive(parts, length / size)
        error, finest = np.maximum(error, coarse), memory if size == 1 else finest
        size *= 2
    return error * _TRIMMED, finest


def quantile(chance: float, freedom: float) -> float:
    """Student's t that is exceeded with `chance`, by Wallace's approximation (1959)."""
    z = NormalDist().inv_cdf(1 - chance) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(min(z * z / freedom, 50.0)))


def _coarse(values: Floats, size: int) -> Floats:
    count = len(values) // size
    return np.asarray(values[len(values) - count * size :].reshape(count, size, values.shape[1]).mean(axis=1))


def _autoregressive(parts: list[Floats], length: float) -> tuple[Floats, float]:
    """((n,) standard errors of the mean of `length` values, correlation of neighbours), pooled over n."""
    count = sum(map(len, parts))
    spread = np.maximum(sum(part.var(axis=0) * len(part) for part in parts) / count, 1e-12)
    near = _spread(np.concatenate([np.diff(part, axis=0) for part in parts]))
    memory = _memory(1 - float(near.mean()) / (2 * float(spread.mean())), count, spread.size)
    seen = max(0.2, 1 - _of_mean(memory, count / len(parts)))
    return np.sqrt(np.maximum(spread, spread.mean()) / seen * _of_mean(memory, length)), memory


def _memory(correlation: float, count: int, series: int) -> float:
    """A careful estimate of the autoregression: Kendall's correction for the bias of short series, and one standard
    error on top, two where there is but one series. Of `series` that sum up to nothing, one is told by the others."""
    unbiased = min(max(0.0, (correlation * count + 1) / (count - 3)), 0.98)
    free = max(1, series - 1)
    return min(unbiased + (1 + 1 / free) * math.sqrt((1 - unbiased**2) / (count * free)), 0.98)


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
