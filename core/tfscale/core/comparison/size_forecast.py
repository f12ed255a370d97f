"""Forecasts of throughput for other sizes from measured ones.

The throughput of a worker changes by a fifth of its change in the last step from size to size,

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
"""Part of the last change that the next change is. On published series (tests/core/comparison/test_size_forecast.py)
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
