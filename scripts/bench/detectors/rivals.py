"""Rules of other projects for the same question, each as published, on the same steps and once a second.

They get what this project's probe measures; what a rule leaves open is said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from slow_clusters import PHASES

Floats = NDArray[np.floating]


class Name(NamedTuple):
    """A worker that a rule names now; None what the rule does not tell."""

    worker: int
    phase: str | None = None
    cost: float | None = None
    begin: float | None = None


class Detector(Protocol):
    """A rule with its memory."""

    def judge(self, end: Floats, phases: Floats) -> Sequence[Name]:
        """Return who is slow, from the (k,) ends and (5, k, n) phases up to now."""


@dataclass
class TraceML:
    """TraceML's rank straggler (github.com/traceopt-ai/traceml, src/traceml_ai/diagnostics/step_time/context.py).

    The culprit is the rank that waits least in the synchronising phase, the victim the upper median; the difference
    over the victim's iteration is the score, from 0.10 on a straggler. A component that explains 80 % of it is named.
    Its window is taken as 100 steps, and 20 at least.
    """

    window: int = 100

    def judge(self, end: Floats, phases: Floats) -> Sequence[Name]:
        if len(end) < 20:
            return []
        means = phases[:, -self.window :].mean(axis=1)
        visible = means[-1]
        order = np.argsort(visible, kind="stable")
        culprit, victim = int(order[0]), int(order[len(order) // 2])
        cost = float(visible[victim] - visible[culprit])
        score = cost / float(means[:, victim].sum())
        if score < 0.10:
            return []
        excess = means[:-1, culprit] - means[:-1, victim]
        most = int(np.argmax(excess))
        return [Name(culprit, PHASES[most] if excess[most] >= 0.8 * cost else None, score)]


@dataclass
class NVRx:
    """Scores of NVIDIA's resiliency extension (github.com/NVIDIA/nvidia-resiliency-ext, straggler/reporting.py).

    A section's relative score is the median of the best rank over that of the rank, its individual one the rank's best
    median so far over the present one; below 0.75, the default of `identify_stragglers`, either makes a straggler. The
    section is a worker's own time. Reports come every 10 s, or 10 steps, where the default is 60 s.
    """

    named: list[Name] = field(default_factory=list)
    best: Floats | None = None
    reported: int = 0

    def judge(self, end: Floats, phases: Floats) -> Sequence[Name]:
        if len(end) - self.reported < 10 or end[-1] - end[self.reported] < 10.0:
            return self.named
        recent = phases[:, self.reported :]
        self.reported = len(end)
        middle = np.median(recent[:-1].sum(axis=0), axis=0)
        self.best = middle if self.best is None else np.minimum(self.best, middle)
        relative, individual = middle.min() / middle, self.best / middle
        self.named = [Name(int(column)) for column in np.flatnonzero((relative < 0.75) | (individual < 0.75))]
        return self.named


@dataclass
class ChangePoint:
    """Bayesian change points (Adams & MacKay 2007) of each worker's share, verified by 10 % as Greyhound does.

    The series is the log of a worker's own time over the median of the others, of blocks of a quarter of a second or a
    step; its prior is a normal with unknown mean and variance, the hazard 1/250. A change counts once a run that is
    the likeliest for 8 blocks has a mean 10 % above the run before it, and ends once it is no longer 10 % above 0.
    """

    runs: list[tuple[Floats, ...]] = field(default_factory=list)
    blocks: list[Floats] = field(default_factory=list)
    taken: int = 0

    def judge(self, end: Floats, phases: Floats) -> Sequence[Name]:
        lag = phases[:-1].sum(axis=0)
        size = max(1, round(0.25 / max(1e-9, float(np.median(np.diff(end[-50:], prepend=0.0))))))
        while self.taken + size <= len(end):
            part = lag[self.taken : self.taken + size].mean(axis=0)
            self.blocks.append(np.log(part / np.median(part)))
            self._update(self.blocks[-1])
            self.taken += size
        names = []
        for column in range(lag.shape[1]) if self.blocks else ():
            run = int(np.argmax(self.weights[column]))
            series = np.array([block[column] for block in self.blocks])
            after, before = series[len(series) - run :] if run else series[:0], series[: len(series) - run]
            if run >= 8 and len(before) >= 8 and after.mean() - max(0.0, before[-80:].mean()) >= np.log(1.1):
                names.append(Name(column, begin=float(end[min(len(end), max(1, (len(series) - run) * size)) - 1])))
        return names

    def _update(self, values: Floats) -> None:
        """Update the run lengths' probabilities of all workers by one value each; runs beyond 400 are cut off."""
        n, spread = len(values), 0.05
        if len(self.blocks) == 1:
            self.weights, self.mean = np.ones((n, 1)), np.zeros((n, 1))
            self.kappa, self.alpha, self.beta = np.full((n, 1), 0.1), np.ones((n, 1)), np.full((n, 1), spread**2)
        scale = self.beta * (self.kappa + 1) / (self.alpha * self.kappa)
        freedom, away = 2 * self.alpha, (values[:, None] - self.mean) ** 2 / scale
        constant = [math.lgamma((each + 1) / 2) - math.lgamma(each / 2) for each in freedom[0]]
        density = np.array(constant) - 0.5 * np.log(np.pi * freedom * scale)
        likely = self.weights * np.exp(density - (freedom + 1) / 2 * np.log1p(away / freedom))
        grown = np.concatenate([likely.sum(axis=1, keepdims=True) / 250, likely * (1 - 1 / 250)], axis=1)[:, :400]
        self.weights = grown / np.maximum(grown.sum(axis=1, keepdims=True), 1e-300)
        moved = self.beta + self.kappa * (values[:, None] - self.mean) ** 2 / (2 * (self.kappa + 1))
        centre = (self.kappa * self.mean + values[:, None]) / (self.kappa + 1)
        self.mean = np.concatenate([np.zeros((n, 1)), centre], axis=1)[:, :400]
        self.kappa = np.concatenate([np.full((n, 1), 0.1), self.kappa + 1], axis=1)[:, :400]
        self.alpha = np.concatenate([np.ones((n, 1)), self.alpha + 0.5], axis=1)[:, :400]
        self.beta = np.concatenate([np.full((n, 1), spread**2), moved], axis=1)[:, :400]
