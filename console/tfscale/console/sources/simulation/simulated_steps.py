"""The steps of simulated workers and their faults: in step with each other, or each at its own pace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.sources.simulation.simulated_course import Course
from tfscale.console.sources.simulation.simulated_faults import HOT_CLOCK, SLOW_LINK, Fault
from tfscale.console.sources.simulation.step_phases import Slow, healthy_phases, slowed, spikes
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.step_batch import PHASES

_PART = 1.0
"""Seconds that are simulated at a time."""
_VARIATION = 0.03
"""Standard deviation over mean of a worker's lag."""
_SPIKES = 0.02
"""Share of steps in which some worker takes three times as long."""
_CPU_FACTOR = 1.5
"""Factor on a step's time on a host with busy processors."""
UNEVEN_FACTOR = 2.0
"""Factor on the time in which workers exchange variables with servers, where one server holds most of them."""


class SimulatedSteps:
    """Steps of workers that wait for each other, made as time goes on; row i is one step of all of them."""

    def __init__(self, workers: Sequence[Task], course: Course, rate: float, seed: int) -> None:
        self._first = workers[0]
        self._columns = {worker: column for column, worker in enumerate(workers)}
        self._course, self.rate, self._seed = course, rate, seed
        self.clock = 0.0
        """Seconds since the beginning up to which the steps are made."""
        self._generation, self._next = 1, 0
        self.end: NDArray[np.float64] = np.empty(0)
        """(k,) seconds since the beginning."""
        self.phases: NDArray[np.float32] = np.empty((len(PHASES), 0, len(workers)), np.float32)
        self.generation: NDArray[np.int64] = np.empty(0, np.int64)
        self.sequence: NDArray[np.int64] = np.empty(0, np.int64)

    def advance_to(self, at: float) -> None:
        """Make the steps up to `at`, seconds since the beginning, and drop the steps that all workers have reported."""
        while self.clock < at and self._has_moved(at):
            pass
        old = int(np.searchsorted(self.end, at - 3.0))
        if old:
            self.end, self.phases = self.end[old:], self.phases[:, old:]
            self.generation, self.sequence = self.generation[old:], self.sequence[old:]

    def phases_of(self, worker: Task, rows: slice) -> NDArray[np.float32]:
        """Return (5, k) seconds of one worker."""
        return self.phases[:, rows, self._columns[worker]]

    def _has_moved(self, at: float) -> bool:
        """Make the next steps; return False where the workers stand still beyond `at`."""
        stands = [stand for stand in self._course.standstills(self._first) if stand[1] > self.clock]
        if not stands or stands[0][0] > self.clock:
            self._make_part(stands[0][0] if stands else math.inf)
            return True
        if stands[0][1] > at:
            return False
        self.clock = stands[0][1]
        generation, _ = self._course.start_of(self._course.counter(self._first), self.clock)
        if generation != self._generation:
            self._generation, self._next = generation, 0
        return True

    def _make_part(self, until: float) -> None:
        self._seed += 1
        # Where one of a thousand stumbles, all wait: a cluster of any size stumbles as often.
        random, shape = np.random.default_rng(self._seed), (max(2, int(_PART * self.rate) + 1), len(self._columns))
        noise = random.normal(size=shape) * _VARIATION + spikes(random, shape, _SPIKES / len(self._columns))
        end, phases = slowed(healthy_phases(self.rate, noise), [*self._slownesses()])
        end, phases = end[:-1] + self.clock, phases[:, :-1]
        if until < end[-1]:
            complete = int(np.searchsorted(end, until))
            end, phases = end[:complete], phases[:, :complete]
            self.clock = until
        else:
            self.clock = float(end[-1])
        self._append(end, phases)

    def _slownesses(self) -> Iterator[Slow]:
        for fault in self._course.faults:
            slowness = _slowness(fault)
            if slowness is None or fault.end <= self.clock:
                continue
            ratio, extra, phase = slowness
            if fault.task.role is Role.PS or fault.kind == "link":
                # Each step of every worker goes through it.
                yield Slow(0, ratio, extra, "reduce", fault.begin - self.clock)
            elif fault.task in self._columns:
                yield Slow(self._columns[fault.task], ratio, extra, phase, fault.begin - self.clock)

    def _append(self, end: Floats, phases: Floats) -> None:
        count = len(end)
        self.end = np.concatenate([self.end, end])
        self.phases = np.concatenate([self.phases, phases.astype(np.float32)], axis=1)
        self.generation = np.concatenate([self.generation, np.full(count, self._generation)])
        self.sequence = np.concatenate([self.sequence, np.arange(self._next, self._next + count)])
        self._next += count


def _slowness(fault: Fault) -> tuple[float, float, str] | None:
    """Return the factor and the extra seconds of a step's phase."""
    match fault.kind:
        case "slow":
            return fault.ratio, fault.extra, fault.phase
        case "thermal":
            return 1 / HOT_CLOCK, 0.0, fault.phase
        case "cpu":
            return _CPU_FACTOR, 0.0, fault.phase
        case "link":
            return SLOW_LINK, 0.0, fault.phase
        case "uneven":
            return UNEVEN_FACTOR, 0.0, fault.phase
    return None
