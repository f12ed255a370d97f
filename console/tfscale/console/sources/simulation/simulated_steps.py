"""The steps of a simulated cluster and its faults."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.sources.simulation.simulated_faults import HOT_CLOCK, STANDSTILLS, Fault
from tfscale.console.sources.simulation.step_phases import Slow, healthy_phases, slowed, spikes
from tfscale.core.records.step_batch import PHASES

_PART = 1.0
"""Seconds that are simulated at a time."""
_VARIATION = 0.03
"""Standard deviation over mean of a worker's lag."""
_SPIKES = 0.02
"""Share of steps in which some worker takes three times as long."""
_CPU_FACTOR = 1.5
"""Factor on a step's time on a host with busy processors."""


class SimulatedSteps:
    """Steps of all workers, made as time goes on; row i is one step of all workers."""

    def __init__(self, workers: int, faults: tuple[Fault, ...], rate: float, seed: int) -> None:
        self._workers, self._rate, self._seed = workers, rate, seed
        self._slow = [fault for fault in faults if _slowness(fault)]
        stops = [fault for fault in faults if fault.kind in ("kill", *STANDSTILLS)]
        self._stops = sorted(stops, key=lambda stop: stop.begin)
        self._clock = 0.0
        self._generation, self._next = 1, 0
        self.end: NDArray[np.float64] = np.empty(0)
        """(k,) seconds since the beginning."""
        self.phases: NDArray[np.float32] = np.empty((len(PHASES), 0, workers), np.float32)
        self.generation: NDArray[np.int64] = np.empty(0, np.int64)
        self.sequence: NDArray[np.int64] = np.empty(0, np.int64)

    def advance_to(self, at: float) -> None:
        """Make the steps up to `at`, seconds since the beginning, and drop the steps that all workers have reported."""
        while self._clock < at:
            self._make_part()
        old = int(np.searchsorted(self.end, at - 3.0))
        if old:
            self.end, self.phases = self.end[old:], self.phases[:, old:]
            self.generation, self.sequence = self.generation[old:], self.sequence[old:]

    def _make_part(self) -> None:
        self._seed += 1
        slow = tuple(self._slowed(fault) for fault in self._slow if fault.end > self._clock)
        # Where one of a thousand stumbles, all wait: a cluster of any size stumbles as often.
        random, shape = np.random.default_rng(self._seed), (int(_PART * self._rate) + 1, self._workers)
        noise = random.normal(size=shape) * _VARIATION + spikes(random, shape, _SPIKES / self._workers)
        end, phases = slowed(healthy_phases(self._rate, noise), slow)
        end, phases = end[:-1] + self._clock, phases[:, :-1]
        stop = next((fault for fault in self._stops if fault.end > self._clock), None)
        if stop is not None and stop.begin < end[-1]:
            complete = int(np.searchsorted(end, stop.begin))
            self._append(end[:complete], phases[:, :complete])
            self._clock = stop.end
            if stop.kind == "kill":
                self._generation, self._next = self._generation + 1, 0
        else:
            self._append(end, phases)
            self._clock = float(end[-1])

    def _slowed(self, fault: Fault) -> Slow:
        ratio, extra = _slowness(fault) or (1.0, 0.0)
        return Slow(fault.task.index, ratio, extra, fault.phase, fault.begin - self._clock)

    def _append(self, end: Floats, phases: Floats) -> None:
        count = len(end)
        self.end = np.concatenate([self.end, end])
        self.phases = np.concatenate([self.phases, phases.astype(np.float32)], axis=1)
        self.generation = np.concatenate([self.generation, np.full(count, self._generation)])
        self.sequence = np.concatenate([self.sequence, np.arange(self._next, self._next + count)])
        self._next += count


def _slowness(fault: Fault) -> tuple[float, float] | None:
    """Return the factor and the extra seconds of a step's phase."""
    match fault.kind:
        case "slow":
            return fault.ratio, fault.extra
        case "thermal":
            return 1 / HOT_CLOCK, 0.0
        case "cpu":
            return _CPU_FACTOR, 0.0
    return None
