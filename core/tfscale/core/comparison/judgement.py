"""Judgement of two sets of runs: slower, faster, within, or undecided.

The unit is a run: steps of one run resemble each other, and say nothing about the next run. What is compared is a time
of each run, such as the mean of its steps; its logarithm, so that 1 / 1.05 is as far from 1 as 1.05. Means are trimmed
(Yuen, 1974): a run beside which somebody else's work began must not decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tfscale.core.comparison.student_t import two_sided
from tfscale.core.text_enum import TextEnum

MARGIN = 0.03
"""Change that nobody minds, as a fraction."""
ERROR = 0.05
"""Probability with which a change is told where there is none."""
MISSED = 0.1
"""Probability with which a change as large as `Judgement.visible` is not told."""
FAR = 10.0
"""Change, as a fraction, from which the bound of an undecided one says nothing: the runs differ too much."""
TRIMMED = 8
"""One of so many values is left out at each end. Of 120 rounds on a busy machine, judged by 16 at a time and by quick
steps, 93 % found the 5 % so, and 64 % with plain means; runs with a noise of 2.5 % need 12 rounds where 11 would do."""


def mean_step(seconds: Sequence[float]) -> float:
    """Return the mean of a run's steps: what the run costs, with all that disturbs it."""
    return fmean(seconds)


def quick_step(seconds: Sequence[float]) -> float:
    """Return the time below which a twentieth of a run's steps are: nothing else ran on the machine beside these.

    On a machine that is shared, runs differ a tenth as much by it as by their means (scripts/bench/comparison.py). It
    says what a quiet machine would show where each step does the same; what only some steps wait for is not in it.
    """
    return sorted(seconds)[len(seconds) // 20]


class Verdict(TextEnum):
    """Result of a comparison."""

    WITHIN = "within"
    """The change is surely smaller than the margin, whatever its sign."""
    SLOWER = "slower"
    FASTER = "faster"
    UNDECIDED = "undecided"
    """The runs differ too much from one another; `Judgement.visible` is the least change that would have been told."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Change of a time against the base, as a fraction of the base: 0.05 is 5 % slower."""

    verdict: Verdict
    change: float
    low: float
    """Lower bound of the change."""
    high: float
    visible: float
    """Least slowdown that is told with a probability of 1 - MISSED at this noise and this number of runs."""

    @property
    def interval(self) -> str:
        """The change with its bounds where these say something: `+5.1% (+4.0% to +6.3%)`."""
        says_nothing = self.high == math.inf or (self.verdict is Verdict.UNDECIDED and self.high > FAR)
        bounds = "" if says_nothing else f" ({self.low:+.1%} to {self.high:+.1%})"
        return f"{self.change:+.1%}{bounds}"


def judge_pairs(
    base: Sequence[float], other: Sequence[float], error: float = ERROR, margin: float = MARGIN
) -> Judgement:
    """Judge runs that took turns, by Yuen's paired t-interval on logarithms of ratios: what both share cancels.

    Args:
        base: time of each run, in any unit.
        other: times of the runs beside them, in the same order.
        error: probability with which runs of one program are told slower or faster.
        margin: change that is *within*.
    """
    ratios = [math.log(new / old) for old, new in zip(base, other, strict=True)]
    if len(ratios) < 2:
        return _unknown(fmean(ratios))
    mean, square, freedom = _trimmed(ratios)
    return _judged(mean, math.sqrt(square), freedom, error, margin)


def judge_sets(
    base: Sequence[float], other: Sequence[float], error: float = ERROR, margin: float = MARGIN
) -> Judgement:
    """Judge runs of two sittings, by the t-interval of Yuen and Welch; fractional degrees of freedom are cut off."""
    old, new = ([math.log(time) for time in times] for times in (base, other))
    if min(len(old), len(new)) < 2:
        return _unknown(fmean(new) - fmean(old))
    (mean, square, freedom), (other_mean, other_square, other_freedom) = _trimmed(old), _trimmed(new)
    shares = square**2 / freedom + other_square**2 / other_freedom
    both = (square + other_square) ** 2 / shares if shares else min(freedom, other_freedom)
    return _judged(other_mean - mean, math.sqrt(square + other_square), max(1, int(both)), error, margin)


def _trimmed(values: Sequence[float]) -> tuple[float, float, int]:
    """Return the trimmed mean, its squared standard error by winsorized values, and the degrees of freedom."""
    count, cut = len(values), len(values) // TRIMMED
    ordered = sorted(values)
    kept = ordered[cut : count - cut]
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    middle = fmean(winsorized)
    squares = sum((value - middle) ** 2 for value in winsorized)
    return fmean(kept), squares / (len(kept) * (len(kept) - 1)), len(kept) - 1


def _judged(change: float, deviation: float, freedom: int, error: float, margin: float) -> Judgement:
    """Return the judgement of a mean of logarithms and its standard deviation."""
    half = two_sided(error, freedom) * deviation
    low, high = fraction(change - half), fraction(change + half)
    # Two one-sided tests (TOST), each with this error: together an interval of 1 - 2 x error.
    close = abs(change) + two_sided(2 * error, freedom) * deviation
    if close < math.log1p(margin):
        verdict = Verdict.WITHIN
    elif low > 0:
        verdict = Verdict.SLOWER
    elif high < 0:
        verdict = Verdict.FASTER
    else:
        verdict = Verdict.UNDECIDED
    visible = fraction(half + two_sided(2 * MISSED, freedom) * deviation)
    return Judgement(verdict, fraction(change), low, high, visible)


def fraction(change: float) -> float:
    """Return a change of the logarithm as a fraction; infinite where few runs differ so much that it has no number."""
    try:
        return math.expm1(change)
    except OverflowError:
        return math.inf


def _unknown(change: float) -> Judgement:
    """Return the judgement of a single run a side, from which nothing is known about the next."""
    return Judgement(Verdict.UNDECIDED, fraction(change), -1.0, math.inf, math.inf)
