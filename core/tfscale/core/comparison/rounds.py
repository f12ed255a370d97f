"""Rounds of a comparison: the order of their runs, and the rounds after which their runs are judged.

A round is one run of each setting. Runs are judged at a few *looks*, and each look may be wrong: so the looks share
the error that all of them together may have (a group sequential plan whose error is spent as Bonferroni's inequality
allows, whatever the runs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfscale.core.comparison.judgement import (
    ERROR,
    MARGIN,
    MISSED,
    TRIMMED,
    Judgement,
    Verdict,
    fraction,
    judge_pairs,
)
from tfscale.core.comparison.student_t import two_sided

FEWEST = 3
"""Rounds before the first look: with fewer nothing is known about how much runs differ."""
MOST = 16
"""Rounds by default, where a comparison stays undecided."""
_SENSIBLE = 100
"""Rounds beyond which nobody is advised to make more."""
_EARLY = (FEWEST, 6, 10)
"""Rounds of the looks before the last."""
_SHARE = 0.15
"""Share of the error at each look but the last: enough for large changes, and not much missed at the last one."""
_EFFICIENCY = 0.94
"""Variance of a mean over that of a mean trimmed by an eighth, where the noise is normal."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Plan of the rounds."""

    most: int = MOST
    margin: float = MARGIN
    error: float = ERROR

    @property
    def looks(self) -> dict[int, float]:
        """Error of each look, by the number of its round."""
        early, share = [look for look in _EARLY if look < self.most], self.error * _SHARE
        return {**dict.fromkeys(early, share), max(self.most, FEWEST): self.error - share * len(early)}

    def visible(self, noise: float) -> float:
        """Return the least slowdown that all rounds together find with a probability of 1 - MISSED.

        Args:
            noise: standard deviation of the logarithms of one setting's runs.
        """
        *_, (count, error) = self.looks.items()
        freedom = count - 2 * (count // TRIMMED) - 1
        deviation = noise * math.sqrt(2 / count / _EFFICIENCY)
        return fraction((two_sided(error, freedom) + two_sided(2 * MISSED, freedom)) * deviation)

    def needed(self, noise: float, change: float) -> int | None:
        """Return the rounds of a new comparison that finds this change with a probability of 1 - MISSED.

        None for more than anybody would wait for.

        Args:
            noise: standard deviation of the logarithms of one setting's runs.
            change: as a fraction of the base; one within the margin needs as many rounds as the margin.
        """
        seen = max(abs(math.log1p(change)), math.log1p(self.margin))
        return next((most for most in range(FEWEST, _SENSIBLE + 1) if self._sees(most, noise, seen)), None)

    def _sees(self, most: int, noise: float, seen: float) -> bool:
        return math.log1p(replace(self, most=most).visible(noise)) <= seen

    def judge(self, base: Sequence[float], other: Sequence[float], is_last: bool = False) -> Judgement | None:
        """Judge the rounds so far; None before the first look.

        Args:
            base: time of each round's run of the base, in any unit.
            other: times of the other setting.
            is_last: True where no further round is made: the rest of the error is spent on these.
        """
        made, looks, spent = len(base), self.looks, 0.0
        for look, error in looks.items():
            if look > made or (is_last and look == made):
                break
            found = judge_pairs(base[:look], other[:look], error, self.margin)
            if found.verdict is not Verdict.UNDECIDED or look == made:
                return found
            spent += error
        if is_last and made:
            return judge_pairs(base, other, self.error - spent, self.margin)
        return None


def order(count: int, number: int) -> list[int]:
    """Return the settings of a round in the order of their runs: A B, B A, A B, ...; `number` counts from 0.

    A machine that gets faster or slower does so for all settings alike.
    """
    return list(range(count)) if number % 2 == 0 else list(range(count))[::-1]
