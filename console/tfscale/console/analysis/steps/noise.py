"""Noise: how far the middle of a window deviates by chance, where neighbouring steps resemble each other.

Host noise lasts for seconds, so that a thousand quick steps may count as a handful of independent ones. The spread is
measured on either side of the slowdown's onset, and carried over to the window by the formula of a first-order
autoregression, at several block sizes; the largest of the errors counts.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats

_FEWEST = 24
"""Blocks that a coarser block size must leave: fewer blocks of one subject give no estimate of the spread, and more
would leave out the coarse sizes, which show slow noise."""
_FEWEST_EACH, _FEWEST_OF_ALL = 6, 96
"""Least blocks of a coarser size, of each subject and of all together, where many show the noise: an estimate from
fewer blocks is off by more than a tenth, and so are the margins."""
_LITTLE_SKEW = 0.01
"""Skewness up to which a distribution is taken for normal."""
_TRIMMED = 1.03
"""Ratio of the standard error of the mean of the middle three fifths to that of the mean of all values."""
_LARGEST_MEMORY = 0.98
"""Bound on the estimated correlation: at 1 the variance of the mean would not fall with more values at all."""
_OUTLIER = 4 * 1.4826
"""Median absolute deviations, four standard deviations of a normal distribution, to which outliers are pulled in."""
_RARE = 0.02
"""Share of the blocks that may be outliers: of 20 blocks, one. With more, a stall in every tenth block would not
count as noise; with less, a single odd block would widen every margin."""


def margin(levels: Floats, length: int, onset: int, chance: float) -> Floats:
    """Return (n,) bounds that the middle of `length` blocks exceeds with the probability `chance`, of (N, n) values.

    `onset` is the block from which on a subject may be slower: the rise from the block before it is no noise.
    """
    sides = _either_side(levels, onset)
    error, memory = _standard_error(sides, length)
    independent = len(levels) * (1 - memory**2) / (1 + memory**2) * min(max(1, levels.shape[1] - 1), 4)
    skew = _skewness(sides) * math.sqrt(_variance_of_mean(memory, length))
    return error * _skewed(quantile(chance, max(2.0, independent - 2)), skew)


def standard_error(levels: Floats, length: int, onset: int) -> tuple[Floats, float]:
    """Return ((n,) standard errors of the middle of `length` blocks, correlation of neighbouring blocks)."""
    return _standard_error(_either_side(levels, onset), length)


def _either_side(levels: Floats, onset: int) -> tuple[Floats, Floats]:
    return _without_outliers(levels[:onset]), _without_outliers(levels[onset:])


def _standard_error(sides: tuple[Floats, Floats], length: int) -> tuple[Floats, float]:
    blocks, subjects = sum(map(len, sides)), sides[0].shape[1]
    error, finest, size = np.zeros(subjects), 0.0, 1
    series = max(1, subjects - 1)
    while size == 1 or (_is_enough(blocks // size, series) and length >= 2 * size):
        parts = [part for part in (_coarse(side, size) for side in sides) if len(part) >= 3]
        if sum(map(len, parts)) < min(_FEWEST_EACH, blocks):
            break
        coarse, memory = _autoregressive(parts, length / size)
        error, finest = np.maximum(error, coarse), memory if size == 1 else finest
        size *= 2
    return error * _TRIMMED, finest


def _is_enough(blocks: int, series: int) -> bool:
    """Decide whether `blocks` blocks of `series` independent subjects show how far noise wanders."""
    return blocks >= _FEWEST or (blocks >= _FEWEST_EACH and blocks * series >= _FEWEST_OF_ALL)


def quantile(chance: float, freedom: float) -> float:
    """Return Student's t that is exceeded with the probability `chance`, by Wallace's approximation (1959)."""
    z = NormalDist().inv_cdf(1 - chance) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(min(z * z / freedom, 50.0)))


def _skewness(sides: tuple[Floats, Floats]) -> float:
    """Return the skewness of the blocks around their means on either side of the onset, pooled; at least 0.

    Stalls and bursts make a few blocks much longer and none much shorter: by chance, windows with several of them are
    more frequent than in a normal distribution.
    """
    parts = [side for side in sides if len(side) >= 3]
    if not parts:
        return 0.0
    values = np.concatenate([part - part.mean(axis=0) for part in parts])
    return max(0.0, float((values**3).mean()) / math.pow(max(float((values**2).mean()), 1e-12), 1.5))


def _skewed(normal: float, skew: float) -> float:
    """Return the quantile of a gamma distribution as rare as `normal` in the normal one (Wilson, Hilferty)."""
    if skew < _LITTLE_SKEW:
        return normal
    return 2 / skew * ((1 + skew * normal / 6 - skew**2 / 36) ** 3 - 1)


def _coarse(values: Floats, size: int) -> Floats:
    count = len(values) // size
    return np.asarray(values[len(values) - count * size :].reshape(count, size, values.shape[1]).mean(axis=1))


def _autoregressive(parts: list[Floats], length: float) -> tuple[Floats, float]:
    """Return ((n,) standard errors of the mean of `length` values, correlation of neighbours), pooled over n."""
    count = sum(map(len, parts))
    spread = np.maximum(sum(part.var(axis=0) * len(part) for part in parts) / count, 1e-12)
    near = _mean_squares(np.concatenate([np.diff(part, axis=0) for part in parts]))
    memory = _memory(1 - float(near.mean()) / (2 * float(spread.mean())), count, spread.size)
    # A short stretch of correlated values shows only a part of their variance.
    shown = max(0.2, 1 - _variance_of_mean(memory, count / len(parts)))
    return np.sqrt(np.maximum(spread, spread.mean()) / shown * _variance_of_mean(memory, length)), memory


def _memory(correlation: float, count: int, series: int) -> float:
    """Return a cautious estimate of the autoregression from the correlation of neighbours.

    It includes Kendall's correction for the bias of short series, and one standard error on top; two for a single
    series. The levels of a block sum to about 0 over the subjects, so that one of `series` depends on the others.
    """
    unbiased = min(max(0.0, (correlation * count + 1) / (count - 3)), _LARGEST_MEMORY)
    independent = max(1, series - 1)
    error = math.sqrt((1 - unbiased**2) / (count * independent))
    return min(unbiased + (1 + 1 / independent) * error, _LARGEST_MEMORY)


def _variance_of_mean(memory: float, length: float) -> float:
    """Return the variance of the mean of `length` values of a first-order autoregression of variance 1."""
    inflation = (1 + memory) / (1 - memory)
    finite = 2 * memory * (1 - memory**length) / (length * (1 - memory) ** 2)
    return float(np.clip((inflation - finite) / length, 0.0, 1.0))


def _mean_squares(differences: Floats) -> Floats:
    return np.asarray((differences**2).mean(axis=0))


def _without_outliers(values: Floats) -> Floats:
    """Pull rare outliers in to four robust standard deviations: single blocks far out hardly move a window's middle.

    Frequent outliers, such as stalls in one step of seven, do move it, and stay unchanged.
    """
    if len(values) == 0:
        return values
    centre = np.median(values, axis=0)
    away = np.sort(np.abs(values - centre), axis=0)
    often = away[len(away) - 1 - math.ceil(_RARE * (len(away) - 1))]
    reach = np.maximum(_OUTLIER * away[len(away) // 2], often)
    return np.asarray(np.clip(values, centre - reach, centre + reach))


def difference(levels: Floats, error: float) -> float:
    """Return the lasting difference between subjects: half the distance of their quartiles, without chance.

    `levels` is (N, n), and `error` the standard error of a mean over all N. Two kinds of hardware are this far from the
    middle between them.
    """
    low, high = np.quantile(levels.mean(axis=0), (0.25, 0.75))
    return math.sqrt(max(0.0, (float(high - low) / 2) ** 2 - error**2))


class Spells(NamedTuple):
    """Slowness that passed by itself: the length of noise here."""

    longest: int
    """Blocks of the longest spell."""
    passed: int
    """Number of spells that have passed."""
    mean: float
    """Mean length of a spell in blocks; a spell that still lasts counts with its length so far."""

    def as_rare(self, exposure: float, chance: float) -> float:
        """Return how many blocks a spell lasts with this chance, within `exposure` blocks of all subjects.

        The lengths are taken as exponentially distributed: noise has no memory.
        """
        return self.mean * math.log(max(1.0, self.passed / exposure / chance)) if self.passed else 0.0


def spells(levels: Floats, column: int, onset: int, threshold: float, ignore: int) -> Spells:
    """Return the spells in which subjects were above the threshold.

    `column` counts up to its `onset` only, the other columns up to their present spell, which may be a slowdown as
    well. Spells of `ignore` blocks and more are left out: they were real slowdowns.
    """
    above = levels > threshold
    above[onset:, column] = False
    change = np.flatnonzero(np.diff(np.pad(above, ((1, 1), (0, 0))).astype(np.int8).T.ravel()))
    starts, stops = change[::2], change[1::2]
    lengths = stops - starts
    has_passed = stops % (len(levels) + 1) != len(levels)
    short = lengths < ignore
    passed = lengths[has_passed & short]
    return Spells(int(passed.max(initial=0)), len(passed), float(lengths[short].sum()) / max(1, len(passed)))
