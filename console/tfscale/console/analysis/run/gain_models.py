"""Models of the gain in throughput that a remedy brings.

A gain is a factor: 1.25 is a quarter more examples a second. `step` is the time of a step and `transfer` the part of
the all-reduce in it, both in seconds. "At most" means that the model leaves out effects that can only lessen the gain.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def fewer_workers(step: float, transfer: float, workers: int, to: int, gathered: float = 0.0) -> float:
    """Return the gain of `to` (>= 1) of `workers` workers, each with its present share of work, by the ring model.

    At least: each round of a ring has its latency, and fewer workers make fewer rounds.
    """
    lag = max(step - transfer, 1e-9)
    return ring_forecast(lag, transfer, workers, to, gathered).throughput / (workers * lag / step)


def more_servers(uses: Sequence[float], workers: int, factor: int) -> float:
    """Return the gain of `factor` times the parameter servers, where the link of one is in use for shares of the time.

    One share is of what it sends, one of what it receives: a step pulls over the one, then pushes over the other. A
    closed network of queues: each of `workers` works for itself, then waits for its turn in each direction, by exact
    mean value analysis [Reiser, Lavenberg 1980]. Its time for itself is the one that makes the present use; none where
    the directions are in more use than such queues can be.
    """
    least, most = 0.0, workers * 1.0
    # In units of the present time from step to step of all workers together, the throughput is 1 now.
    for _ in range(40):
        own = (least + most) / 2
        least, most = (own, most) if _throughput(uses, workers, own) > 1 else (least, own)
    return _throughput([use / factor for use in uses], workers, own) / _throughput(uses, workers, own)


def _throughput(demands: Sequence[float], workers: int, own: float) -> float:
    """Return the throughput of workers with `own` time and a demand for each of several links, one after another."""
    queues = [0.0 for _ in demands]
    throughput = 0.0
    for number in range(1, workers + 1):
        at_links = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        throughput = number / (own + sum(at_links))
        queues = [throughput * time for time in at_links]
    return throughput
