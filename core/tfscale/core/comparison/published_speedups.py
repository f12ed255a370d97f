"""Published speedups of data parallelism in TensorFlow, and Amdahl's contention of a speedup."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
"""Published speedups, synchronous and asynchronous."""


def nearest_published(workers: float) -> Published:
    """Return the published speedup of the most similar size."""
    return min(PUBLISHED, key=lambda point: abs(math.log(point.workers / workers)))


def contention(workers: float, speedup: float) -> float:
    """Return Amdahl's contention a = (N/S - 1) / (N - 1) of a speedup S of N > 1 workers; below 0 beyond linear.

    By it N workers are N / (1 + a (N - 1)) times as fast as one, half as efficient at 1 + 1/a of them, and never more
    than 1/a times as fast.
    """
    return (workers / speedup - 1) / (workers - 1)
