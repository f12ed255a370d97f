"""Models of the gain in throughput that a remedy brings.

A gain is a factor: 1.25 is a quarter more examples a second. `step` is the time of a step and `transfer` the part of
the all-reduce in it, both in seconds. "At most" means that the model leaves out effects that can only lessen the gain.
"""

from __future__ import annotations

from tfscale.console.analysis.run.scaling import ring_forecast


def half_the_bytes(step: float, transfer: float) -> float:
    """Return the gain of half the bytes on the wire: half the transfer; at most, because latency stays."""
    return step / (step - transfer / 2)


def faster_link(step: float, transfer: float, factor: float) -> float:
    """Return the gain of links `factor` times as fast; at most, because latency stays."""
    return step / (step - transfer + transfer / factor)


def accumulated(step: float, transfer: float, micro_batches: int) -> float:
    """Return the gain of one all-reduce for `micro_batches` micro-batches."""
    return step / (step - transfer + transfer / micro_batches)


def larger_batch(step: float, growing: float, factor: float) -> float:
    """Return the gain of a batch `factor` times as large, if only `growing` seconds of a step grow with it.

    At least: larger batches use a device better.
    """
    return factor * step / (step + (factor - 1) * growing)


def prefetched(step: float, fetch: float) -> float:
    """Return the gain of preparing the next batch during training: the longer of the two counts."""
    return step / max(step - fetch, fetch)


def half_the_compute(step: float, compute: float) -> float:
    """Return the gain of devices twice as fast."""
    return step / (step - compute / 2)


def other_volume(step: float, transfer: float, now: float, then: float) -> float:
    """Return the gain of `then` instead of `now` bytes over each link; at most, because latency stays."""
    return step / (step - transfer + transfer * then / now)


def more_workers(step: float, transfer: float, workers: int, to: int, gathered: float = 0.0) -> float:
    """Return the gain of `to` workers by the ring model; at most, because latency grows with every worker.

    This share of the bytes is `gathered`, 0 to 1.
    """
    lag = max(step - transfer, 1e-9)
    if workers < 2:
        return to / workers
    return ring_forecast(lag, transfer, workers, to, gathered).high / (workers * lag / step)
