"""Figures of one straggler, all of them measured over the same steps.

A sentence about a straggler and its cause take every number from here: a ratio of one window next to an excess of
another one would contradict each other as soon as the slowdown changes or ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tfscale.core.analysis.steps.phases import (
    excess,
    longest_lag,
    others_median,
    slowdown,
    transfer,
    with_medians_for_unknown,
)
from tfscale.core.analysis.steps.step_table import AlignedSteps
from tfscale.core.records import LAG_PHASES


@dataclass(frozen=True, slots=True)
class StragglerFigures:
    """Comparison of a straggler with its peers, in medians over one window of steps."""

    ratio: float
    """Its lag over the median lag of its peers."""
    phase: str
    """The phase in which it exceeds the median of its peers most."""
    excess: Mapping[str, float]
    """Seconds a step beyond the median of its peers, by phase of the lag."""
    own: Mapping[str, float]
    """Its own seconds a step, by phase of the lag."""
    step: float
    """Seconds of a step of the cluster."""
    slowdown: float
    """Time that the cluster takes over the time without this slowdown; >= 1."""
    measured_at: float
    """Unix seconds of the end of the newest step in the window."""

    @property
    def cost(self) -> float:
        """Share of the cluster's throughput that is lost, 0 to 1."""
        return 1 - 1 / self.slowdown


def straggler_figures(steps: AlignedSteps, column: int) -> StragglerFigures:
    """Measure the subject in this column over `steps` (n >= 2 subjects, at least one step)."""
    lag = steps.lag
    relative = lag[:, column] / others_median(with_medians_for_unknown(lag))[:, column]
    extra = dict(zip(LAG_PHASES, excess(steps.phases[:-1], column).tolist(), strict=True))
    own = np.nanmedian(steps.phases[:-1, :, column], axis=1)
    return StragglerFigures(
        ratio=float(np.nanmedian(relative)),
        phase=max(extra, key=extra.__getitem__),
        excess=extra,
        own=dict(zip(LAG_PHASES, own.tolist(), strict=True)),
        step=float(np.nanmedian(longest_lag(lag) + transfer(steps.reduce))),
        slowdown=slowdown(lag, steps.reduce, [column]),
        measured_at=float(steps.end[-1]),
    )
