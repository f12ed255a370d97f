"""Rates of steps over stretches of time, in blocks, and the comparison of two rates in spite of noise."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.blocks import SECOND, cut_second
from tfscale.console.analysis.steps.noise import margin
from tfscale.console.analysis.stragglers.straggler_rule import centre

LEAST_BLOCKS = 10
"""Least blocks of a rate: a fifth is cut off at either end, and six are left. With fewer a single long block would
move the rate, with more a rate is known later."""
SECONDS = 60.0
"""Most seconds of a rate, where they hold the least number of blocks."""
_SET_BACK = 1.0
"""Seconds by which a step ends before the step before it where the clock was set back: workers at their own pace
report a step some milliseconds late, which is no set clock."""
_CHANCE = 1e-2
"""Probability with which noise alone counts as faster or slower. scripts/bench/restart_gains.py: at a tenth of it a
gain of 10 % in white noise of 2 to 5 % is found in two of three cases instead of four of five."""
_WORTH = 0.03
"""Share of the rate below which a change counts as none: the cost of a straggler worth a repair."""


@dataclass(frozen=True, slots=True)
class StepRate:
    """Rate over the blocks of one stretch of time."""

    levels: Floats
    """(N,) logarithms of the seconds a step in each block, in order."""

    @property
    def per_second(self) -> float:
        """Steps a second; a few much longer blocks do not move the rate."""
        return math.exp(-float(centre(self.levels)))


@dataclass(frozen=True, slots=True)
class Change:
    """Change from one rate to another."""

    share: float
    """The later rate over the earlier one, less 1."""
    noise: float
    """Largest change by noise alone, as a share; a smaller change is no change."""

    @property
    def is_real(self) -> bool:
        """True where the change is beyond noise."""
        return abs(math.log1p(self.share)) > math.log1p(self.noise)

    @property
    def has_gained(self) -> bool:
        return self.is_real and self.share > 0

    @classmethod
    def between(cls, before: StepRate, after: StepRate) -> Change:
        count = len(before.levels) * len(after.levels) // (len(before.levels) + len(after.levels))
        levels = np.concatenate([before.levels, after.levels])[:, None]
        noise = math.expm1(float(margin(levels, count, len(before.levels), _CHANCE)[0]))
        return cls(after.per_second / before.per_second - 1, max(noise, _WORTH))


@dataclass(slots=True)
class RateHistory:
    """History of the seconds a step, in blocks of a second or more."""

    _blocks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=int(SECONDS / SECOND)))
    """(logarithm of the seconds a step, seconds) of each."""
    _edge: float | None = None
    """End of the last step of the last block, Unix seconds."""
    _steps: int = 0
    """Steps since then."""

    def __len__(self) -> int:
        return len(self._blocks)

    def interrupt(self) -> None:
        """Begin the next block at the next step: some between are not known, or are not to count."""
        self._edge, self._steps = None, 0

    def append(self, ends: Floats, least: int = 1) -> None:
        """Append the next steps by their (k,) ends, Unix seconds, in order; a block has at `least` as many steps."""
        turns = np.flatnonzero(np.diff(ends) < -_SET_BACK) + 1
        for part in np.split(ends, turns):
            self._append_rising(part, least)

    def _append_rising(self, ends: Floats, least: int) -> None:
        while len(ends):
            if self._edge is None or ends[0] < self._edge - _SET_BACK:
                self._edge, self._steps, ends = float(ends[0]), 0, ends[1:]
                continue
            if (count := cut_second(ends, self._edge, least - self._steps)) is None:
                self._steps += len(ends)
                return
            seconds = float(ends[count - 1]) - self._edge
            self._blocks.append((math.log(seconds / (self._steps + count)), seconds))
            self._edge, self._steps, ends = float(ends[count - 1]), 0, ends[count:]

    def rate(self) -> StepRate | None:
        """Return the rate over the newest minute, or over ten blocks if these are longer; None with fewer blocks."""
        if len(self._blocks) < LEAST_BLOCKS:
            return None
        levels: list[float] = []
        total = 0.0
        for level, seconds in reversed(self._blocks):
            if len(levels) >= LEAST_BLOCKS and total + seconds > SECONDS:
                break
            levels.append(level)
            total += seconds
        return StepRate(np.array(levels[::-1]))
