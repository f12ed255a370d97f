"""Baseline: usual times of the parts of a step in one attempt of a run, and how far noise moves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from tfscale.console.analysis.baselines.run_facts import BaselineKey, RunFacts
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.phases import transfer
from tfscale.core.records.step_batch import LAG_PHASES

PARTS = (*LAG_PHASES, "transfer")
OWN = len(LAG_PHASES)
"""Parts, the first of PARTS, that do not depend on how many workers there are."""
LEAST_BLOCKS = 30
"""Blocks that a baseline takes: half a minute. With fewer a burst of noise would become usual, with more a short run
would have no baseline."""
_DEVIATIONS = 3 * 1.4826
"""Median absolute deviations of three standard deviations in a normal distribution: the usual reach of noise."""
_MOST_VALUES = 20_000
"""Steps x workers whose medians make a block; of more, an even sample of the steps."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Usual times of one attempt."""

    usual: tuple[float, ...]
    """Seconds of each of PARTS."""
    most: float
    """Seconds of a step that noise reaches by itself."""
    blocks: int
    """Blocks over which it was measured."""
    begin: float
    """Unix seconds."""
    end: float
    attempt: str = ""
    """Name of the attempt; empty where unknown."""
    key: BaselineKey | None = None
    """Program, size and hardware; None where unknown: the baseline then serves this run alone."""
    facts: RunFacts = field(default_factory=RunFacts)

    @property
    def step(self) -> float:
        """Seconds of all parts together."""
        return sum(self.usual)


class BaselineStore(Protocol):
    """Baselines of earlier runs, kept by the console."""

    def recall(self, key: BaselineKey, /) -> Sequence[Baseline]:
        """Return the kept baselines of the key's program and hardware, of any size."""
        ...

    def keep(self, baseline: Baseline) -> None:
        """Keep this baseline if it is the fastest of its attempt."""
        ...


def part_times(steps: AlignedSteps) -> Floats:
    """Return (5,) seconds of each of PARTS, medians over steps and workers."""
    stride = max(1, len(steps) * len(steps.subjects) // _MOST_VALUES)
    phases = steps.phases[:, ::stride]
    return np.array([*(float(np.median(plane)) for plane in phases[:-1]), float(np.median(transfer(phases[-1])))])


def usual_times(blocks: Floats) -> tuple[tuple[float, ...], float]:
    """Return the usual seconds of each part, and the longest step by noise alone, from (N, 5) seconds by block.

    Usual is the median of the quicker half: a quarter undisturbed is enough.
    """
    step = blocks.sum(axis=1)
    middle = float(np.median(step))
    usual = np.median(blocks[step <= middle], axis=0)
    return tuple(usual.tolist()), middle + _DEVIATIONS * float(np.median(np.abs(step - middle)))
