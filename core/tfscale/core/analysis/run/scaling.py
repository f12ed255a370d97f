"""Forecasts of throughput for more workers: models of throughput by number of workers, fitted to measured sizes.

    affine  X(N) = p + g N
    amdahl  X(N) = g N / (1 + a (N-1))                 a: the part of the work that is not shared [Amdahl 1967]
    usl     X(N) = g N / (1 + a (N-1) + b N (N-1))     b: cost of every worker with every other [Gunther 1993]

The last two are linear in N/X, where they are fitted with parameters that are not negative.
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
"""Relative error that every forecast has at least (chosen: throughputs are not measured better than that)."""
_BAND = 2.0
"""Half width of the band over the error at left-out sizes. With 2 the bands of the seven published series hold the
measured largest size (tests/core/analysis/run/test_scaling.py)."""

Curve = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Fit:
    """One fitted model, with its error at measured sizes that were left out of the fit."""

    model: str
    parameters: dict[str, float]
    at: Curve
    """Throughput by number of workers."""
    error: float
    """Root mean square of the relative error at left-out sizes; infinite where too few are left to fit."""


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
    """A published speedup, as a range from `low` to `high`."""

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
"""Published speedups of synchronous and asynchronous data parallelism in TensorFlow."""


def fits(sizes: Sequence[float], throughputs: Sequence[float]) -> tuple[Fit, ...]:
    """Return every model, fitted, the one that forecasts left-out sizes best first.

    The smallest size is never left out: forecasts go towards more workers. Raises ValueError for fewer than 3 sizes.
    """
    n, x = np.asarray(sizes, dtype=float), np.asarray(throughputs, dtype=float)
    if len(set(sizes)) < FEWEST_SIZES:
        raise ValueError(f"a forecast needs {FEWEST_SIZES} measured sizes, there are {len(set(sizes))}")
    order = np.argsort(n)
    n, x = n[order], x[order]
    fitted = [Fit(name, *_MODELS[name](n, x), _left_out_error(name, n, x)) for name in _MODELS]
    return tuple(sorted(fitted, key=lambda fit: fit.error))


def forecast(sizes: Sequence[float], throughputs: Sequence[float], workers: float) -> Forecast:
    """Return the best model's forecast for `workers`; the band spans all models, and twice the best one's error.

    Raises ValueError for fewer than 3 sizes.
    """
    candidates = fits(sizes, throughputs)
    best = candidates[0]
    reach = math.exp(_BAND * max(_FLOOR, best.error))
    values = [fit.at(workers) for fit in candidates]
    value = values[0]
    return Forecast(workers, value, min(*values, value / reach), max(*values, value * reach), best.model)


def efficiency(workers: float, throughput: float, one: float) -> float:
    """Return the throughput over that of as many single workers, each with the throughput `one`."""
    return throughput / (workers * one)


def nearest_published(workers: float) -> Published:
    """Return the published speedup of the most similar size."""
    return min(PUBLISHED, key=lambda point: abs(math.log(point.workers / workers)))


def _affine(n: Floats, x: Floats) -> tuple[dict[str, float], Curve]:
    design = np.stack([np.ones_like(n), n], axis=1) / x[:, None]
    p, g = map(float, np.linalg.lstsq(design, np.ones_like(n), rcond=None)[0])
    return {"p": p, "g": g}, lambda workers: p + g * workers


def _shared_work(n: Floats, x: Floats, *terms: Callable[[Floats], Floats]) -> tuple[dict[str, float], Curve]:
    """Fit N/X as a non-negative sum of terms, the first of which is the time of one worker's share."""
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
        others = np.arange(len(n)) != row
        _, at = _MODELS[name](n[others], x[others])
        errors.append(math.log(max(at(float(n[row])), 1e-12) / float(x[row])))
    return float(np.sqrt(np.mean(np.square(errors))))


def non_negative(design: Floats, target: Floats) -> Floats:
    """Return the (p,) least-squares weights that are not negative. The first column is always used.

    Tries every subset of the columns: here there are at most three.
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
class RingModel:
    """Model of other sizes from a live run of one: T(N) = lag + latency (N-1) + volume(N)/bandwidth.

    The volume is 2 (N-1)/N * bytes of what is reduced, and (N-1) * bytes of what is gathered.

    It leaves out that links to further hosts can be slower, and that the slowest of more workers is slower.
    """

    lag: float
    """Seconds of a step outside the all-reduce."""
    latency: float
    """Seconds for each neighbour."""
    payload: float
    """Bytes over bandwidth, seconds."""
    gathered: float = 0.0
    """Share of the bytes that is all-gathered, 0 to 1."""

    def transfer(self, workers: float) -> float:
        """Return the seconds of the all-reduce."""
        return self.latency * (workers - 1) + volume(self.payload, workers, self.gathered)

    def step(self, workers: float) -> float:
        """Return the seconds of a step, each worker with the share of work that it has now."""
        return self.lag + self.transfer(workers)

    def throughput(self, workers: float) -> float:
        """Return worker-steps a second: times a worker's batch, the examples a second."""
        return workers / self.step(workers)


def rings(lag: float, transfer: float, workers: int, gathered: float = 0.0) -> tuple[RingModel, RingModel]:
    """Return both ends of what a run of one size (N >= 2) allows: all of the transfer is bytes, or all is latency.

    This share of the bytes is `gathered`, 0 to 1.
    """
    payload = transfer / volume(1.0, workers, gathered)
    return RingModel(lag, 0.0, payload, gathered), RingModel(lag, transfer / (workers - 1), 0.0)


def ring_forecast(lag: float, transfer: float, workers: int, to: float, gathered: float = 0.0) -> Forecast:
    """Return the throughput of `to` workers over that of one, from a run of `workers` (at least 2); see `rings`."""
    by_bytes, by_latency = (ring.throughput(to) * lag for ring in rings(lag, transfer, workers, gathered))
    return Forecast(to, by_bytes, min(by_bytes, by_latency), max(by_bytes, by_latency), "ring")


def volume(payload: float, ranks: float, gathered: float = 0.0) -> float:
    """Return the bytes over each link of a ring of `ranks`, of which each gives `payload` bytes.

    An all-reduce moves 2 (n-1)/n of them, an all-gather n - 1 times as many [nccl-tests; there the size of an
    all-gather is what each gets, n times what it gives]. This share of the payload is `gathered`, 0 to 1.
    """
    return payload * (ranks - 1) * (2 / ranks * (1 - gathered) + gathered)


def bus_bandwidth(payload: float, seconds: float, ranks: int, gathered: float = 0.0) -> float:
    """Return bytes a second over each link of a ring; see `volume`."""
    return volume(payload, ranks, gathered) / seconds
