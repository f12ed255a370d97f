"""What a remedy would bring, each by a model that is named: never a gain without one.

A gain is a factor of throughput: 1.25 is a quarter more examples a second. T is the step, X its exposed transfer.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.analysis.run.scaling import ring_forecast


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to do, what it should bring, and by which model; `gain` None: no model says."""

    what: str
    gain: float | None = None
    model: str = ""
    at_most: bool = False
    """The model leaves out what can only lessen the gain."""

    def __str__(self) -> str:
        if self.gain is None:
            return self.what
        most = "at most " if self.at_most else ""
        return f"{self.what} ({most}+{self.gain - 1:.0%} throughput)"


def half_the_bytes(step: float, transfer: float) -> float:
    """X/2 instead of X: the time of the transfer goes with its bytes (its latency does not: at most)."""
    return step / (step - transfer / 2)


def faster_link(step: float, transfer: float, factor: float) -> float:
    """X/factor instead of X (at most, as above)."""
    return step / (step - transfer + transfer / factor)


def accumulated(step: float, transfer: float, micro_batches: int) -> float:
    """One all-reduce for several micro-batches: X is paid once in that many."""
    return step / (step - transfer + transfer / micro_batches)


def larger_batch(step: float, compute: float, factor: float) -> float:
    """A batch of factor times the examples: compute and input grow with it, the rest is paid once (at least: larger
    batches use a device better). `compute` is the part that grows."""
    return factor * step / (step + (factor - 1) * compute)


def prefetched(step: float, fetch: float) -> float:
    """The next batch is made while this one is trained on: the longer of the two counts."""
    return step / max(step - fetch, fetch)


def half_the_compute(step: float, compute: float) -> float:
    """Devices twice as fast: compute takes half."""
    return step / (step - compute / 2)


def more_workers(step: float, transfer: float, workers: int, to: int) -> float:
    """The ring model, all of the transfer taken for bytes (at most: latency grows with every worker)."""
    lag = max(step - transfer, 1e-9)
    if workers < 2:
        return to / workers
    return ring_forecast(lag, transfer, workers, to).high / (workers * lag / step)
