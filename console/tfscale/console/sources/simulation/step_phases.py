"""Phases of the steps of simulated workers: equal up to noise, except that some are slowed down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.core.records.step_batch import PHASES

SHARES = {"update": 0.03, "host": 0.05, "input": 0.07, "compute": 0.85}
"""Share of each phase in a healthy worker's lag."""
TRANSFER = 0.15
"""Seconds of the network over a healthy worker's lag."""


@dataclass(frozen=True, slots=True)
class Slow:
    """One worker's slowdown: from `begin` seconds on, a phase takes `ratio` times as long and `extra` seconds more.

    In `reduce` it is the transfer of all workers, whoever has the slow link.
    """

    worker: int
    ratio: float = 1.0
    extra: float = 0.0
    phase: str = "compute"
    begin: float = 0.0


def spikes(random: np.random.Generator, shape: tuple[int, int], share: float) -> Floats:
    """Return the log of 3 for this share of the steps, else 0."""
    return np.where(random.random(shape) < share, np.log(3.0), 0.0)


def healthy_phases(rate: float, noise: Floats) -> Floats:
    """Return (5, k, workers) seconds of steps at `rate` a second; `noise` is the log of each lag over its mean."""
    lag = 1 / rate / (1 + TRANSFER)
    shares = np.array([SHARES[name] for name in PHASES[:-1]])[:, None, None]
    return np.concatenate([lag * shares * np.exp(noise)[None], np.full((1, *noise.shape), TRANSFER * lag)])


def slowed(phases: Floats, slow: Sequence[Slow]) -> tuple[Floats, Floats]:
    """Return ((k,) ends, phases) of the steps with these slowdowns, each worker waiting for the slowest."""
    for each in sorted(slow, key=lambda each: each.begin):
        begun = np.concatenate([[0.0], np.cumsum(_step_times(phases))[:-1]]) >= each.begin
        row, of = phases[PHASES.index(each.phase), begun], slice(None) if each.phase == "reduce" else each.worker
        row[:, of] = row[:, of] * each.ratio + each.extra
        phases[PHASES.index(each.phase), begun] = row
    own = phases[:-1].sum(axis=0)
    end = np.cumsum(_step_times(phases))
    phases[-1] += own.max(axis=1, keepdims=True) - own
    return end, phases


def _step_times(phases: Floats) -> Floats:
    """Return (k,) seconds of each step, by its slowest worker."""
    return np.asarray(phases[:-1].sum(axis=0).max(axis=1) + phases[-1, :, 0])
