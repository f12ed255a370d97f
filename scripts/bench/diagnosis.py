"""Cost of the diagnosis: CPU for one second of data, for folding the frames and for the conclusions.

    .venv/bin/python scripts/bench/diagnosis.py [--rate R] [--seconds S] [--workers N]

Each worker makes 100 steps a second with 5 % of noise; from the middle on, one of them is 1.3 times as slow. Ends with
1 where a second of 1,000 workers costs more than the budget.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus

SIZES = (10, 100, 1000, 4000)
BUDGET, OF = 0.060, 1000
"""CPU seconds, and the number of workers to which they apply."""
SHARES = (0.03, 0.05, 0.07, 0.70, 0.15)
SETTLED = 20
"""Seconds of data after which memory and history have their usual size."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of each second of data."""

    fold: list[float]
    diagnose: list[float]
    named: tuple[str, ...]

    @property
    def whole(self) -> list[float]:
        return [fold + diagnose for fold, diagnose in zip(self.fold, self.diagnose, strict=True)]


def second_of_frames(workers: int, rate: int, second: int, slow: float) -> Iterator[tuple[str, Frame]]:
    """Yield the frames of `workers` agents at the end of this second; the last worker computes `slow` times as long."""
    random = np.random.default_rng(second)
    usual = np.array(SHARES)[:, None, None] / rate
    phases = usual * np.exp(0.05 * random.standard_normal((len(SHARES), rate, workers)))
    phases[3, :, -1] *= slow
    lag = phases[:-1].sum(axis=0)
    phases[-1] = lag.max(axis=1, keepdims=True) - lag + usual[-1]
    columns = phases.transpose(2, 0, 1).astype(np.float32)
    sequence = array("Q", range(second * rate, (second + 1) * rate))
    end = array("d", (second + (np.arange(rate) + 1) / rate).tolist())
    status = TaskStatus(TaskState.RUNNING, generation=1, attempt=1, pid=1, started=0.0)
    probe = ProbeStatus(ProbeState.MEASURING, examples_per_step=64)
    for worker in range(workers):
        name = f"worker:{worker}"
        parts = {phase: array("f", column.tobytes()) for phase, column in zip(PHASES, columns[worker], strict=True)}
        batch = StepBatch(1, 1, name, name, sequence, end, sequence, **parts)
        yield name, Frame(second, second + 1.0, status, probe, steps=(batch,))


def measure(workers: int, rate: int, seconds: int) -> Cost:
    addresses = [f"10.0.{index // 250}.{index % 250 + 1}:2222" for index in range(workers)]
    spec = parse_cluster({"cluster": {"worker": addresses}}, name="bench", where="bench", base=Path())
    diagnostician = Diagnostician(spec)
    for index in range(workers):
        diagnostician.note_link(f"worker:{index}", True, 0.0)
    fold, diagnose, named = [], [], set()
    for second in range(SETTLED + seconds):
        frames = list(second_of_frames(workers, rate, second, 1.3 if second >= SETTLED + seconds // 2 else 1.0))
        begin = time.thread_time()
        for name, frame in frames:
            diagnostician.observe(name, frame)
        between = time.thread_time()
        findings = diagnostician.diagnose(second + 1.0)
        end = time.thread_time()
        named |= {diagnosis.subject for diagnosis in findings.diagnoses if diagnosis.kind == "straggler"}
        if second >= SETTLED:
            fold.append(between - begin)
            diagnose.append(end - between)
    return Cost(fold, diagnose, tuple(sorted(named)))


def milliseconds(costs: Sequence[float]) -> str:
    return f"{statistics.median(costs) * 1e3:.1f} ({max(costs) * 1e3:.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rate", type=int, default=100, help="steps a second")
    parser.add_argument("--seconds", type=int, default=30, help="of data that are timed")
    arguments = parser.parse_args()
    missed = False
    print("| workers | fold, ms | diagnose, ms | both, ms: median (most) | named |")
    print("| --- | --- | --- | --- | --- |")
    for workers in arguments.workers:
        cost = measure(workers, arguments.rate, arguments.seconds)
        cells = [milliseconds(part) for part in (cost.fold, cost.diagnose, cost.whole)]
        print(f"| {workers:,} | {' | '.join(cells)} | {', '.join(cost.named) or 'nobody'} |", flush=True)
        missed |= workers == OF and statistics.median(cost.whole) > BUDGET
    if missed:
        print(f"{OF:,} workers cost more than {BUDGET * 1e3:.0f} ms", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
