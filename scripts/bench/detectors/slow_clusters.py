"""Simulated clusters for detectors of stragglers: kinds of noise and of slowness, with the truth beside them.

Nothing here is shared with what the project's own tests simulate, and no number of the rule was set on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHARES = {"update": 0.03, "host": 0.05, "input": 0.07, "compute": 0.85}
"""Share of each phase in a healthy worker's own time."""
PHASES = tuple(SHARES)
TRANSFER = 0.15
"""Seconds of the all-reduce over a healthy worker's own time."""
NOISES = ("white", "heavy-tailed", "autocorrelated", "drifting", "bursty", "stalling", "bimodal", "two kinds")
SHARES_OF_STEPS = {"in 40 % of steps": 0.4, "in 25 % of steps": 0.25, "in 10 % of steps": 0.1}
"""Shares of the steps in which a worker is slow, by fault."""
MOVES = {"moving every 20 s": 20.0, "moving every 60 s": 60.0, "moving every 180 s": 180.0}
"""Seconds after which the slowness moves to another worker, by fault; each of these slow workers is to be named."""
MOVES_AT_ONCE = "moving every 2 s"
"""Fault that moves on before a repair could begin: nobody is to be named."""
FAULTS = (
    "permanent",
    "passing",
    "in 40 % of steps",
    "creeping",
    MOVES_AT_ONCE,
    "two at once",
    "in 25 % of steps",
    "in 10 % of steps",
    "two in turns",
    *MOVES,
)
BEGIN, PASSES, LONG = 60.0, 60.0, 150.0
"""Seconds after which a fault begins, that a passing one lasts, and of a whole run, where 150 steps take no longer."""
TURNS = 3
"""Workers that a moving fault makes slow, one after the other."""
FEWEST_STEPS = 15
"""Least steps of a stretch of time, where a step takes long."""


class Turn(NamedTuple):
    """Stretch of steps in which a worker is slow, in all of them or in a share."""

    worker: int
    first: int
    last: int


@dataclass(frozen=True)
class Cluster:
    """One run, and the truth about it."""

    end: Floats
    """(k,) seconds at which each step ended."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds, with the time in the all-reduce last."""
    turns: tuple[Turn, ...]
    """Slow workers, in the order of their onsets."""
    without: Floats
    """(k,) seconds that each step would take without it."""
    phase: str

    @property
    def step(self) -> Floats:
        """(k,) seconds of each step."""
        return np.diff(self.end, prepend=0.0)


def cluster(
    workers: int,
    step: float,
    noise: str,
    seed: int,
    *,
    fault: str | None = None,
    ratio: float = 1.5,
    seconds: float | None = None,
) -> Cluster:
    """Simulate a run of so many `seconds`, by default as long as its fault needs."""
    random = np.random.default_rng(seed)
    begin, passes = _steps(BEGIN, step), _steps(PASSES, step)
    turn = _steps(MOVES[fault], step) if fault in MOVES else round(max(2.0, 2 * step) / step)
    rest = TURNS * turn if fault in MOVES else round(max(LONG - BEGIN, 30 * step) / step)
    count = round(seconds / step) if seconds else begin + rest
    own = step / (1 + TRANSFER)
    lag = own * np.exp(_Noise(random, (count, workers), step).of(noise))
    factor, phase = np.ones((count, workers)), "compute"
    if fault is not None:
        factor = _factors(
            random, fault=fault, ratio=ratio, count=count, workers=workers, begin=begin, passes=passes, turn=turn
        )
        phase = str(random.choice(["compute", "compute", "input"]))
    shares = np.array(list(SHARES.values()))[:, None, None]
    phases = shares * lag
    phases[PHASES.index(phase)] += lag * (factor - 1)
    whole = phases.sum(axis=0)
    reduce = TRANSFER * own + whole.max(axis=1, keepdims=True) - whole
    end = np.cumsum(whole.max(axis=1) + TRANSFER * own)
    everything = np.concatenate([phases, reduce[None]]).astype(np.float32)
    turns = _turns(factor > 1.04, 1 if fault in MOVES else count)
    return Cluster(end, everything, turns, lag.max(axis=1) + TRANSFER * own, phase)


def _steps(seconds: float, step: float) -> int:
    return round(max(seconds, FEWEST_STEPS * step) / step)


def _turns(slow: NDArray[np.bool_], most: int) -> tuple[Turn, ...]:
    """Return the turns in (k, n) `slow`; slow steps more than `most` steps apart are of two turns."""
    turns = []
    for column in np.flatnonzero(slow.any(axis=0)).tolist():
        rows = np.flatnonzero(slow[:, column])
        parts = np.split(rows, np.flatnonzero(np.diff(rows) > most) + 1)
        turns += [Turn(column, int(part[0]), int(part[-1])) for part in parts]
    return tuple(sorted(turns, key=lambda turn: turn.first))


def _factors(
    random: np.random.Generator,
    *,
    fault: str,
    ratio: float,
    count: int,
    workers: int,
    begin: int,
    passes: int,
    turn: int,
) -> Floats:
    """Return (k, n) factors on each worker's own time."""
    factor, rows = np.ones((count, workers)), np.arange(count)
    first, second = (int(column) for column in random.permutation(workers)[:2])
    if (share := SHARES_OF_STEPS.get(fault)) is not None:
        # The mean is the same, in whatever share of the steps.
        factor[(rows >= begin) & (random.random(count) < share), first] = 1 + 0.8 * (ratio - 1) / share
    match fault:
        case "permanent":
            factor[begin:, first] = ratio
        case "passing":
            factor[begin : begin + passes, first] = ratio
        case "creeping":
            factor[:, first] = 1 + (ratio - 1) * np.clip((rows - begin) / passes, 0.0, 1.0)
        case _ if fault.startswith("moving"):
            turns = (rows - begin) // turn
            columns = np.cumsum(random.integers(1, workers, int(turns.max()) + 1)) % workers
            late = rows >= begin
            factor[rows[late], columns[turns[late]]] = ratio
        case "two at once":
            factor[begin:, [first, second]] = ratio
        case "two in turns":
            factor[begin:, first], factor[begin:, second] = np.where(
                random.random(count - begin) < 0.5, [[2 * ratio - 1], [1.0]], [[1.0], [2 * ratio - 1]]
            )
    return factor


@dataclass(frozen=True)
class _Noise:
    """Logs of each worker's own time over its mean, (k, n), one kind of noise a method."""

    random: np.random.Generator
    shape: tuple[int, int]
    step: float
    """Seconds."""

    def of(self, name: str) -> Floats:
        """Return the noise of a name in NOISES."""
        return np.asarray(getattr(self, name.replace("-", "_").replace(" ", "_"))())

    def white(self) -> Floats:
        return self.random.normal(0.0, 0.05, self.shape)

    def heavy_tailed(self) -> Floats:
        return np.clip(0.03 * self.random.standard_t(2.5, self.shape), -0.5, 1.5)

    def autocorrelated(self) -> Floats:
        return self.remembering(0.8, 0.05)

    def drifting(self) -> Floats:
        """Return noise of 5 %, half of it with a memory of 10 s."""
        memory = float(np.exp(-self.step / 10.0))
        return self.random.normal(0.0, 0.035, self.shape) + self.remembering(memory, 0.035)

    def wandering(self) -> Floats:
        """Return noise of 8 % with a memory of 3 minutes: no detector of stragglers is asked about it."""
        return self.random.normal(0.0, 0.02, self.shape) + self.remembering(float(np.exp(-self.step / 180.0)), 0.08)

    def bursty(self) -> Floats:
        """Return bursts of other tenants: 4 % of the time, for 4 s on average, a host takes 1.6 times as long."""
        values = self.random.normal(0.0, 0.03, self.shape)
        for column in range(self.shape[1]):
            at = float(self.random.exponential(100.0))
            while at < self.shape[0] * self.step:
                lasts = float(self.random.exponential(4.0))
                values[int(at / self.step) : int((at + lasts) / self.step) + 1, column] += np.log(1.6)
                at += lasts + float(self.random.exponential(100.0))
        return values

    def stalling(self) -> Floats:
        """Return stalls alike on all workers: in 15 % of its steps a worker stands still for half a step."""
        stalls = self.random.random(self.shape) < 0.15
        return self.random.normal(0.0, 0.03, self.shape) + np.where(stalls, np.log(1.5), 0.0)

    def bimodal(self) -> Floats:
        """Return two lengths of batches, alike on all workers."""
        return self.random.normal(0.0, 0.03, self.shape) + np.where(self.random.random(self.shape) < 0.5, 0.15, 0.0)

    def two_kinds(self) -> Floats:
        """Return two kinds of hardware within 5 %, the first half the quicker: no slowness that a repair ends."""
        return self.random.normal(0.0, 0.04, self.shape) + np.where(
            np.arange(self.shape[1]) < self.shape[1] // 2, 0.0, 0.05
        )

    def remembering(self, memory: float, spread: float) -> Floats:
        """Return a first-order autoregression."""
        shocks = self.random.normal(0.0, spread, self.shape)
        shocks[1:] *= np.sqrt(1 - memory**2)
        for row in range(1, self.shape[0]):
            shocks[row] += memory * shocks[row - 1]
        return shocks
