"""Figures of stragglers, all measured over the same steps: those since the newest of their onsets.

A straggler's sentence and cause take every number from here: a ratio of one window beside an excess of another would
contradict each other when the slowdown changes or ends. Several stragglers have one cost: repairing one of two that are
equally slow gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.lost_time import even_sample, slowdown
from tfscale.console.analysis.steps.phases import longest_lag, medians, transfer
from tfscale.core.records.step_batch import LAG_PHASES

_SAYS_MUCH = 10.0
"""Largest factor over the peers' time in a phase that a sentence quotes: a larger factor means that the peers' time
is next to nothing, such as 0.01 ms, and says nothing."""


@dataclass(frozen=True, slots=True)
class StragglerFigures:
    """Comparison of a straggler with its unnamed peers, in means over one window of steps.

    A slowness in only some steps would be invisible, or complete, in medians.
    """

    ratio: float
    """Its lag over the median lag of its peers."""
    phase: str
    """Phase with the largest excess over its peers."""
    excess: Mapping[str, float]
    """Seconds a step beyond its peers, by phase of the lag."""
    own: Mapping[str, float]
    """Its own seconds a step, by phase of the lag."""
    step: float
    """Seconds of a step of the cluster."""
    slowdown: float
    """Time that the cluster takes over the time without its stragglers, all together; >= 1."""
    measured_at: float
    """Unix seconds of the end of the newest step in the window."""

    @property
    def cost(self) -> float:
        """Share of the cluster's throughput that is lost, 0 to 1."""
        return 1 - 1 / self.slowdown

    @property
    def peers(self) -> float:
        """Seconds a step that its peers take in its `phase`."""
        return max(0.0, self.own[self.phase] - self.excess[self.phase])

    @property
    def phase_ratio(self) -> float | None:
        """Straggler's time in its `phase` over its peers', the factor of all sentences; None where it is too large."""
        own = self.own[self.phase]
        return own / self.peers if own < _SAYS_MUCH * self.peers else None


def straggler_figures(steps: AlignedSteps, culprits: Sequence[int]) -> list[StragglerFigures]:
    """Measure the subjects in these columns over `steps`; subjects outside them have at least one step."""
    lag, own_phases = steps.lag, steps.phases[:-1]
    peers = even_sample([column for column in range(lag.shape[1]) if column not in culprits])
    usual = medians(lag[:, peers], axis=1)
    usual_phases = medians(own_phases[:, :, peers], axis=2)
    step = float(np.nanmean(longest_lag(lag) + transfer(steps.reduce)))
    lost, measured_at = slowdown(lag, steps.reduce, culprits), float(steps.end[-1])
    figures = []
    for column in culprits:
        beyond = np.nanmean(own_phases[:, :, column] - usual_phases, axis=1)
        extra = dict(zip(LAG_PHASES, beyond.tolist(), strict=True))
        ratio = float(np.nanmean(lag[:, column]) / np.nanmean(usual))
        own = dict(zip(LAG_PHASES, np.nanmean(own_phases[:, :, column], axis=1).tolist(), strict=True))
        phase = max(extra, key=extra.__getitem__)
        figures.append(
            StragglerFigures(
                ratio=ratio, phase=phase, excess=extra, own=own, step=step, slowdown=lost, measured_at=measured_at
            )
        )
    return figures
