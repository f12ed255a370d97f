"""Models of other sizes from a live run of one.

Forecasts from several measured sizes: `core/comparison/size_forecast.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.comparison.ring_volume import volume
from tfscale.core.comparison.size_forecast import Forecast


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


def bus_bandwidth(payload: float, seconds: float, ranks: int, gathered: float = 0.0) -> float:
    """Return bytes a second over each link of a ring; see `volume`."""
    return volume(payload, ranks, gathered) / seconds
