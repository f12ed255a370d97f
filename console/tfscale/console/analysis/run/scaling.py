"""Forecasts of throughput for more workers, from measured sizes or from a live run of one size.

From measured sizes: the throughput of a worker changes by a fifth of its change in the last step from size to size,

    X(M) / M = X(N) / N * (M / N) ** (k / 5),    k = log(X(N) / N / (X(L) / L)) / log(N / L)

for the largest measured size N and the one before it L. Models that are fitted to all sizes, Amdahl's law and the
universal scalability law among them, take the first step from one host to several for a lasting contention, and
forecast published series worse than two simple rules: the same rate a worker as at the largest size, and the line
through the last two sizes. The formula lies between these two (docs/how-it-works/diagnosis.md#scaling).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_SIZES = 3
"""Measured sizes below which there is no forecast; three make a weak one."""
_CONTINUES = 0.2
"""Part of the last change that the next change is. On published series (tests/console/analysis/run/test_scaling.py)
the median error is below 1.7 % with 0.1 to 0.3, and with 0.5 as large as that of the line through the last two
sizes."""
_FLOOR = 0.03
"""Least relative error of the band beyond the rules. With 0.03 the bands hold the measured largest size of 33 of 36
published series (the same test)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Throughput of `workers`, with its likely band."""

    workers: float
    throughput: float
    low: float
    high: float


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


def forecast(sizes: Sequence[float], throughputs: Sequence[float], workers: float) -> Forecast:
    """Return the forecast for `workers`.

    The band spans three rules: the same rate a worker, the line through the last two sizes, and Amdahl's law through
    them, a lasting contention. Raises ValueError for fewer than 3 sizes.
    """
    measured = dict(sorted(zip(sizes, throughputs, strict=True)))  # Of one size the best counts.
    if len(measured) < FEWEST_SIZES:
        raise ValueError(f"a forecast needs {FEWEST_SIZES} measured sizes, there are {len(measured)}")
    (before, less), (largest, rate) = list(measured.items())[-2:]
    change = math.log(rate / largest / (less / before)) / math.log(largest / before)
    value = same_rate(largest, rate, workers) * (workers / largest) ** (_CONTINUES * change)
    rules = (
        value,
        same_rate(largest, rate, workers),
        last_line(before, less, largest, rate, workers),
        _amdahl(before, less, largest, rate, workers),
    )
    return Forecast(workers, value, min(rules) / (1 + _FLOOR), max(rules) * (1 + _FLOOR))


def same_rate(largest: float, rate: float, workers: float) -> float:
    """Return the throughput of `workers`, each with the rate of a worker at the largest measured size."""
    return rate / largest * workers


def last_line(before: float, less: float, largest: float, rate: float, workers: float) -> float:
    """Return the throughput of `workers` on the line through the last two measured sizes, none below 0."""
    return max(rate + (rate - less) / (largest - before) * (workers - largest), 0.0)


def _amdahl(before: float, less: float, largest: float, rate: float, workers: float) -> float:
    """Return the throughput of `workers` if each further worker lengthens the step as the last ones did."""
    growth = max((largest / rate - before / less) / (largest - before), 0.0)
    return workers / (largest / rate + growth * (workers - largest))


def efficiency(workers: float, throughput: float, one: float) -> float:
    """Return the throughput over that of as many separate workers, each with the throughput `one`."""
    return throughput / (workers * one)


def nearest_published(workers: float) -> Published:
    """Return the published speedup of the most similar size."""
    return min(PUBLISHED, key=lambda point: abs(math.log(point.workers / workers)))


@dataclass(frozen=True, slots=True)
class RingModel:
    """Model of other sizes from a live run of one: T(N) = lag + latency (N-1) + volume(N)/bandwidth.

    The volume is 2 (N-1)/N times the reduced bytes plus (N-1) times the gathered bytes.

    The model leaves out that links to further hosts can be slower, and that the slowest of more workers is slower.
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
        """Return the seconds of a step, each worker with its present share of work."""
        return self.lag + self.transfer(workers)

    def throughput(self, workers: float) -> float:
        """Return worker-steps a second: times a worker's batch, the examples a second."""
        return workers / self.step(workers)


def rings(lag: float, transfer: float, workers: int, gathered: float = 0.0) -> tuple[RingModel, RingModel]:
    """Return both ends of what a run of one size (N >= 2) allows: the whole transfer is bytes, or all is latency.

    `gathered` is the gathered share of the bytes, 0 to 1.
    """
    payload = transfer / volume(1.0, workers, gathered)
    return RingModel(lag, 0.0, payload, gathered), RingModel(lag, transfer / (workers - 1), 0.0)


def ring_forecast(lag: float, transfer: float, workers: int, to: float, gathered: float = 0.0) -> Forecast:
    """Return the throughput of `to` workers as a multiple of one worker's, from a run of `workers` (>= 2)."""
    by_bytes, by_latency = (ring.throughput(to) * lag for ring in rings(lag, transfer, workers, gathered))
    return Forecast(to, by_bytes, min(by_bytes, by_latency), max(by_bytes, by_latency))


def volume(payload: float, ranks: float, gathered: float = 0.0) -> float:
    """Return the bytes over each link of a ring of `ranks`, each of which gives `payload` bytes.

    An all-reduce moves 2 (n-1)/n times the payload, an all-gather n - 1 times [nccl-tests; there the size of an
    all-gather is what each rank gets, n times what it gives]. `gathered` is the all-gather's share, 0 to 1.
    """
    return payload * (ranks - 1) * (2 / ranks * (1 - gathered) + gathered)


def bus_bandwidth(payload: float, seconds: float, ranks: int, gathered: float = 0.0) -> float:
    """Return bytes a second over each link of a ring; see `volume`."""
    return volume(payload, ranks, gathered) / seconds
