"""Throughput over the number of workers, from several recorded runs of different size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tfscale.console.report.run_report import RunGroup
from tfscale.core.comparison.published_speedups import nearest_published
from tfscale.core.comparison.size_forecast import FEWEST_SIZES, Forecast, efficiency, forecast


@dataclass(frozen=True, slots=True)
class MeasuredScaling:
    """Measured (workers, throughput), the smallest first, and the forecast for twice the largest."""

    measured: tuple[tuple[int, float], ...]
    unit: str
    forecast: Forecast | None
    """None for fewer than three sizes."""

    @property
    def efficiencies(self) -> tuple[float, ...]:
        """Efficiency of each size, against as many of the smallest size's workers."""
        fewest, base = self.measured[0]
        return tuple(efficiency(workers / fewest, throughput, base) for workers, throughput in self.measured)

    @property
    def published(self) -> str:
        """Published result of a similar size."""
        point = nearest_published(self.measured[-1][0])
        speedup = f"{point.low:g}x" if point.low == point.high else f"{point.low:g} to {point.high:g}x"
        return f"{point.name} {speedup} on {point.workers}"


def scaling_over_runs(groups: Sequence[RunGroup]) -> MeasuredScaling | None:
    """Return the sizes, from one group a run; None for fewer than two. Of several runs of a size the best counts."""
    rates = [(group, rate) for group in groups if (rate := training_rate(group)) is not None and group.workers]
    by_examples = all(group.examples for group, _ in rates)
    best: dict[int, float] = {}
    for group, rate in rates:
        throughput = rate * (group.examples or 1 if by_examples else group.workers)
        best[group.workers] = max(best.get(group.workers, 0.0), throughput)
    if len(best) < 2:
        return None
    measured = tuple(sorted(best.items()))
    workers, throughputs = zip(*measured, strict=True)
    predicted = forecast(workers, throughputs, 2 * workers[-1]) if len(measured) >= FEWEST_SIZES else None
    return MeasuredScaling(measured, "examples/s" if by_examples else "worker-steps/s", predicted)


def training_rate(group: RunGroup) -> float | None:
    """Return the rate of the median step while the run trained; pauses do not count."""
    lengths = group.timeline.values.sum(axis=0)
    lengths = lengths[np.isfinite(lengths)]
    middle = float(np.median(lengths)) if lengths.size else 0.0
    return 1 / middle if middle > 0 else None
