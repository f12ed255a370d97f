"""Simulated clusters for tests and benchmarks of rules: equal workers with realistic noise, some of them slowed down.

A simulation is a stream of the frames that agents would send. Its steps are those of the console's own simulation, with
noise that is like a host's.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.sources.simulation.step_phases import Slow, healthy_phases, slowed, spikes
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus


@dataclass(frozen=True, slots=True)
class Noise:
    """The difference between equal workers from step to step."""

    variation: float = 0.05
    """Standard deviation over mean of a worker's lag."""
    memory: float = 0.0
    """Correlation of neighbouring steps (first-order autoregression), 0 for white noise."""
    bursts: float = 0.0
    """Share of the time in which another process slows a worker down."""
    burst_seconds: float = 3.0
    """Mean duration of a burst, seconds."""
    burst_ratio: float = 1.6
    """Factor on the worker's lag during a burst."""
    spikes: float = 0.005
    """Share of single steps that take 3 times as long."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """`workers` equal workers that make about `rate` steps a second for `seconds`."""

    workers: int = 2
    rate: float = 20.0
    seconds: float = 60.0
    noise: Noise = Noise()
    slow: tuple[Slow, ...] = ()
    seed: int = 0

    def frames(self) -> Iterator[tuple[str, Frame]]:
        """Yield (task, frame), one for each second and worker, in order of time; time begins at 0."""
        end, phases = self.steps()
        for second in range(1, int(self.seconds) + 1):
            low, high = np.searchsorted(end, [second - 1, second])
            for worker in range(self.workers):
                yield f"worker:{worker}", frame(worker, float(second), end, phases, int(low), int(high))

    def steps(self) -> tuple[Floats, Floats]:
        """Return ((k,) ends, (5, k, workers) phases) in seconds."""
        random = np.random.default_rng(self.seed)
        count = int(self.seconds * self.rate) + 1
        phases = healthy_phases(self.rate, _noise(random, (count, self.workers), self.noise))
        if not self.noise.bursts:
            return slowed(phases, self.slow)
        end = np.empty(count)
        clock, spell = 0.0, _Bursts(self, random)
        for step in range(count):
            phases[:-1, step] *= spell.at(clock)
            self._slow_down(phases[:, step], clock)
            own = phases[:-1, step].sum(axis=0)
            phases[-1, step] += own.max() - own
            clock += float(phases[:, step, 0].sum())
            end[step] = clock
        return end, phases

    def _slow_down(self, step: Floats, clock: float) -> None:
        for slow in self.slow:
            if clock >= slow.begin:
                row = PHASES.index(slow.phase)
                step[row, slow.worker] = step[row, slow.worker] * slow.ratio + slow.extra


class _Bursts:
    """Bursts in which another process takes a host's processor for a few seconds."""

    def __init__(self, simulation: Simulation, random: np.random.Generator) -> None:
        self._noise, self._random, self._workers = simulation.noise, random, simulation.workers
        self._until = np.zeros(self._workers)
        self._clock = 0.0

    def at(self, clock: float) -> Floats:
        """Return (workers,) factors on the lag at `clock` seconds."""
        noise = self._noise
        passed, self._clock = clock - self._clock, clock
        begins = self._random.random(self._workers) < noise.bursts * passed / noise.burst_seconds
        lengths = self._random.exponential(noise.burst_seconds, self._workers)
        self._until = np.where(begins, clock + lengths, self._until)
        return np.where(self._until > clock, noise.burst_ratio, 1.0)


def _noise(random: np.random.Generator, shape: tuple[int, int], noise: Noise) -> Floats:
    """Return the log of each lag over its mean."""
    drift = random.normal(size=shape) * noise.variation
    if noise.memory:
        drift[1:] *= np.sqrt(1 - noise.memory**2)
        for before, after in pairwise(drift):
            after += noise.memory * before
    return np.asarray(drift + spikes(random, shape, noise.spikes))


def frame(worker: int, at: float, end: Floats, phases: Floats, low: int, high: int) -> Frame:
    """Return a frame of a worker's agent at `at` with the steps `low` to `high`.

    `end` is (k,), `phases` (5, k, workers) seconds.
    """
    name = f"worker:{worker}"
    update, host, fetch, compute, reduce = (array("f", phases[row, low:high, worker]) for row in range(len(PHASES)))
    batch = StepBatch(
        generation=1,
        attempt=1,
        reporter=name,
        subject=name,
        sequence=range(low, high),
        end=array("d", end[low:high]),
        global_step=range(low, high),
        update=update,
        host=host,
        input=fetch,
        compute=compute,
        reduce=reduce,
    )
    return Frame(
        sequence=int(at) - 1,
        at=at,
        status=TaskStatus(TaskState.RUNNING, generation=1, attempt=1, pid=1000 + worker, started=0.0),
        probe=ProbeStatus(ProbeState.MEASURING, strategy="MultiWorkerMirroredStrategy", examples_per_step=64),
        collective=Collective(high, high),
        steps=(batch,) if high > low else (),
    )
