"""What more workers bring: models of throughput against size, fitted to what was measured, and their forecast.

    affine  X(N) = p + g N
    amdahl  X(N) = g N / (1 + a (N-1))                 a: the part of the work that is not shared out [Amdahl 1967]
    usl     X(N) = g N / (1 + a (N-1) + b N (N-1))     b: every worker with every other [Gunther 1993]

The last two are linear in N/X, and fitted there with parameters that are not negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from tfscale.core.analysis.steps.step_table import Floats

FEWEST_SIZES = 3
"""Measured sizes below which there is no forecast; three make a weak one."""
_FLOOR = 0.02
"""No band is narrower: throughputs are not measured better than that."""
_BAND = 2.0
"""Times the error of the left-out sizes."""

Curve = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Fit:
    """One model with its parameters, and how wrong it was about sizes that were kept from it."""

    model: str
    parameters: dict[str, float]
    at: Curve
    """Throughput of this many workers."""
    error: float
    """Root mean square of the relative error at left-out sizes; infinite where too few are left to fit."""

    @property
    def peak(self) -> float | None:
        """The size from which on more workers are slower, None where the model has no such size."""
        a, b = self.parameters.get("a", 0.0), self.parameters.get("b", 0.0)
        return math.sqrt((1 - a) / b) if b > 0 and a < 1 else None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Throughput of `workers`, with the band that the truth should lie in."""

    workers: float
    throughput: float
    low: float
    high: float
    model: str


@dataclass(frozen=True, slots=True)
class Published:
    """A speedup that others have published."""

    name: str
    workers: int
    low: float
    high: float


PUBLISHED = (
    Published("NMT", 8, 6, 6),
    Published("Inception on ImageNet", 50, 32, 32),
    Published("dense models", 50, 25, 40),
    Published("RankBrain, sparse", 500, 300, 300),
)
"""Synchronous and asynchronous data parallelism in TensorFlow."""


def fits(sizes: Sequence[float], throughputs: Sequence[float]) -> tuple[Fit, ...]:
    """Every model, the one that forecasts left-out sizes best first. Raises ValueError for fewer than 3 sizes.

    The smallest size is never left out: nobody forecasts towards fewer workers.
    """
    n, x = np.asarray(sizes, dtype=float), np.asarray(throughputs, dtype=float)
    if len(set(sizes)) < FEWEST_SIZES:
        raise ValueError(f"a forecast needs {FEWEST_SIZES} measured sizes, there are {len(set(sizes))}")
    order = np.argsort(n)
    n, x = n[order], x[order]
    made = [Fit(name, *_MODELS[name](n, x), _left_out_error(name, n, x)) for name in _MODELS]
    return tuple(sorted(made, key=lambda fit: fit.error))


def forecast(sizes: Sequence[float], throughputs: Sequence[float], workers: float) -> Forecast:
    """What the best model says of `workers`; the band spans all models, and twice its own error. Raises ValueError."""
    candidates = fits(sizes, throughputs)
    best = candidates[0]
    reach = math.exp(_BAND * max(_FLOOR, best.error))
    values = [fit.at(workers) for fit in candidates]
    value = values[0]
    return Forecast(workers, value, min(*values, value / reach), max(*values, value * reach), best.model)


def efficiency(workers: float, throughput: float, one: float) -> float:
    """Throughput over that of as many single workers."""
    return throughput / (workers * one)


def nearest_published(workers: float) -> Published:
    """The published point of the most similar size."""
    return min(PUBLISHED, key=lambda point: abs(math.log(point.workers / workers)))


def _affine(n: Floats, x: Floats) -> tuple[dict[str, float], Curve]:
    design = np.stack([np.ones_like(n), n], axis=1) / x[:, None]
    p, g = map(float, np.linalg.lstsq(design, np.ones_like(n), rcond=None)[0])
    return {"p": p, "g": g}, lambda workers: p + g * workers


def _shared_work(n: Floats, x: Floats, *terms: Callable[[Floats], Floats]) -> tuple[dict[str, float], Curve]:
    """N/X as a non-negative sum of terms, the first of which is the time of one worker's share."""
    seconds = n / x
    design = np.stack([term(n) for term in terms], axis=1) / seconds[:, None]
    weights = non_negative(design, np.ones_like(seconds))
    one, *rest = map(float, weights)

    def at(workers: float) -> float:
        size = np.asarray([float(workers)])
        return float(workers / sum(weight * term(size)[0] for weight, term in zip(weights, terms, strict=True)))

    return {"g": 1 / one, **dict(zip("ab", (weight / one for weight in rest), strict=False))}, at


def _one(n: Floats) -> Floats:
    return np.ones_like(n)


def _contention(n: Floats) -> Floats:
    return n - 1


def _crosstalk(n: Floats) -> Floats:
    return n * (n - 1)


_MODELS: dict[str, Callable[[Floats, Floats], tuple[dict[str, float], Curve]]] = {
    "affine": _affine,
    "amdahl": lambda n, x: _shared_work(n, x, _one, _contention),
    "usl": lambda n, x: _shared_work(n, x, _one, _contention, _crosstalk),
}
_PARAMETERS = {"affine": 2, "amdahl": 2, "usl": 3}


def _left_out_error(name: str, n: Floats, x: Floats) -> float:
    if len(n) - 1 < _PARAMETERS[name]:
        return math.inf
    errors = []
    for row in range(1, len(n)):
        kept = np.arange(len(n)) != row
        _, at = _MODELS[name](n[kept], x[kept])
        errors.append(math.log(max(at(float(n[row])), 1e-12) / float(x[row])))
    return float(np.sqrt(np.mean(np.square(errors))))


def non_negative(design: Floats, target: Floats) -> Floats:
    """(p,) the least-squares weights that are not negative, for the few columns here by trying every subset of them.

    The first column is always used.
    """
    columns = design.shape[1]
    best, least = np.zeros(columns), math.inf
    for count in range(columns):
        for others in combinations(range(1, columns), count):
            chosen = [0, *others]
            weights = np.linalg.lstsq(design[:, chosen], target, rcond=None)[0]
            left = float(((design[:, chosen] @ weights - target) ** 2).sum())
            if (weights >= 0).all() and left < least - 1e-15:
                best, least = np.zeros(columns), left
                best[chosen] = weights
    return best


@dataclass(frozen=True, slots=True)
class Ring:
    """T(N) = lag + latency (N-1) + 2 (N-1)/N * bytes/bandwidth: what a live run of one size says of other sizes.

    A model: it knows neither slower links further away nor that the slowest of more workers is slower.
    """

    lag: float
    """Seconds a step that a worker needs by itself."""
    latency: float
    """Seconds a neighbour."""
    payload: float
    """Bytes over bandwidth, seconds."""

    def transfer(self, workers: float) -> float:
        """Seconds in the all-reduce."""
        return self.latency * (workers - 1) + 2 * (workers - 1) / workers * self.payload

    def step(self, workers: float) -> float:
        """Seconds a step, each worker with the share of work that it has now."""
        return self.lag + self.transfer(workers)

    def throughput(self, workers: float) -> float:
        """Worker-steps a second: times a worker's batch it is the examples a second."""
        return workers / self.step(workers)


def rings(lag: float, transfer: float, workers: int) -> tuple[Ring, Ring]:
    """The two ends of what a run of one size allows: all of the transfer is bytes, or all of it is latency (N >= 2)."""
    payload = transfer / (2 * (workers - 1) / workers)
    return Ring(lag, 0.0, payload), Ring(lag, transfer / (workers - 1), 0.0)


def ring_forecast(lag: float, transfer: float, workers: int, to: float) -> Forecast:
    """Throughput of `to` workers over that of one alone, from a run of `workers` (at least 2)."""
    whole, none = (ring.throughput(to) * lag for ring in rings(lag, transfer, workers))
    return Forecast(to, whole, min(whole, none), max(whole, none), "ring")


def bus_bandwidth(payload: float, seconds: float, ranks: int) -> float:
    """Bytes a second over each link of a ring: bytes / seconds * 2 (n-1)/n [nccl-tests]."""
    return payload / seconds * 2 * (ranks - 1) / ranks
