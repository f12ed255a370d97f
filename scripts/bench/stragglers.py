"""Errors and delays of the straggler rule on simulated clusters; the tables of docs/how-it-works/diagnosis.md.

    .venv/bin/python scripts/bench/stragglers.py [--seeds N] [--minutes M] [--only WORDS]
    .venv/bin/python scripts/bench/stragglers.py --equal HOURS     # ends with 3 where more than one worker is named

Each row is one kind of noise; each cell pools all sizes and rates. Seeds differ from those of the tests. With --equal
all workers are equal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import WINDOW
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.file.cluster_file import parse_cluster

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/harness"))

from phase_simulation import Noise, Simulation
from tfscale.core.settings.exit_status import ExitStatus

NOISES = {
    "white, 2 %": Noise(0.02),
    "white, 5 %": Noise(0.05),
    "white, 15 %": Noise(0.15),
    "memory 0.5, 5 %": Noise(0.05, 0.5),
    "memory 0.8, 10 %": Noise(0.10, 0.8),
    "memory 0.95, 5 %": Noise(0.05, 0.95),
    "memory 0.95, 15 %": Noise(0.15, 0.95),
    "5 %, bursts 1.6x of 3 s, 10 % of the time": Noise(0.05, 0.3, bursts=0.1),
    "5 %, bursts 2x of 6 s, 5 % of the time": Noise(0.05, 0.3, bursts=0.05, burst_seconds=6.0, burst_ratio=2.0),
}
SHAPES = ((2, 5.0), (2, 20.0), (2, 80.0), (3, 20.0), (8, 10.0), (8, 50.0))
RATIOS = (1.15, 1.3, 2.0)
EQUAL_NOISES = {
    f"{'white' if not memory else f'memory {memory}'}, {variation:.0%}": Noise(variation, memory)
    for memory in (0.0, 0.5, 0.8, 0.95)
    for variation in (0.02, 0.05, 0.10, 0.15)
}
EQUAL_SHAPES = (
    (2, 1.0),
    (2, 5.0),
    (2, 20.0),
    (2, 200.0),
    (3, 10.0),
    (4, 50.0),
    (8, 20.0),
    (16, 2.0),
    (32, 10.0),
    (64, 5.0),
)
ONSET = 40.0
PATIENCE = 60.0


@dataclass(frozen=True)
class Named:
    """Stragglers that were named in one simulated run, as (seconds of the first time, subject)."""

    names: tuple[tuple[float, str], ...]
    window: float


def watch(simulation: Simulation) -> Named:
    tasks = [f"worker:{index}" for index in range(simulation.workers)]
    document = {"cluster": {"worker": [f"10.0.0.{index + 1}:2222" for index in range(simulation.workers)]}}
    diagnostician = Diagnostician(parse_cluster(document, name="bench", where="bench", base=Path()))
    for task in tasks:
        diagnostician.note_link(task, True, 0.0)
    seen: dict[tuple[str, float], float] = {}
    for task, frame in simulation.frames():
        diagnostician.observe(task, frame)
        if task == tasks[-1]:
            for diagnosis in diagnostician.diagnose(frame.at).diagnoses:
                if diagnosis.kind == "straggler":
                    seen.setdefault((diagnosis.subject, diagnosis.begin), frame.at)
    window = max(Rule().window(simulation.workers), WINDOW / simulation.rate)
    return Named(tuple((at, subject) for (subject, _), at in seen.items()), window)


def names_in(simulation: Simulation) -> int:
    """Count how often the rule alone names a worker, applied once a second."""
    end, phases = simulation.steps()
    columns = phases.astype(np.float32)
    subjects = tuple(f"worker:{index}" for index in range(simulation.workers))
    rule, seen = StragglerWatch(), set()
    for second in range(1, int(simulation.seconds) + 1):
        high = int(np.searchsorted(end, second))
        steps = AlignedSteps(subjects, np.arange(high), end[:high], columns[:, :high])
        found = rule.diagnose(steps.after(rule.follow(subjects)), steps.since)
        seen |= {(diagnosis.subject, diagnosis.begin) for diagnosis in found if diagnosis.kind == "straggler"}
    return len(seen)


def equal(hours: float) -> int:
    """Print the table of equal workers, and return how many were named."""
    seconds = hours * 3600 / len(EQUAL_NOISES) / len(EQUAL_SHAPES)
    print(f"| noise | {' | '.join(f'{workers} at {rate:g}/s' for workers, rate in EQUAL_SHAPES)} |")
    print(f"| --- |{' --- |' * len(EQUAL_SHAPES)}")
    total = 0
    for number, (name, noise) in enumerate(EQUAL_NOISES.items()):
        counts = [
            names_in(Simulation(workers, rate, seconds, noise, seed=3000 + 100 * number + index))
            for index, (workers, rate) in enumerate(EQUAL_SHAPES)
        ]
        total += sum(counts)
        print(f"| {name} | {' | '.join(map(str, counts))} |", flush=True)
    print(f"{total} names in {hours:g} hours", file=sys.stderr)
    return total


def healthy(noise: Noise, minutes: float, seeds: int) -> int:
    runs = (
        watch(Simulation(workers, rate, minutes * 60, noise, seed=1000 + seed))
        for workers, rate in SHAPES
        for seed in range(seeds)
    )
    return sum(len(run.names) for run in runs)


def slowed(noise: Noise, ratio: float, seeds: int) -> Iterator[tuple[float | None, int]]:
    """Yield for each run when the culprit was named, and the number of wrong names.

    The time is in seconds after the onset and one window; None where it was not named within a minute.
    """
    for workers, rate in SHAPES:
        for seed in range(seeds):
            culprit = seed % workers
            slow = Slow(culprit, 1 + (ratio - 1) / 0.85, begin=ONSET)
            run = watch(Simulation(workers, rate, ONSET + PATIENCE, noise, (slow,), seed=2000 + seed))
            times = [at for at, subject in run.names if subject == f"worker:{culprit}" and at >= ONSET]
            wrong = sum(subject != f"worker:{culprit}" or at < ONSET for at, subject in run.names)
            yield (times[0] - ONSET - run.window if times else None), wrong


def row(name: str, noise: Noise, minutes: float, seeds: int) -> str:
    cells, wrong = [], 0
    for ratio in RATIOS:
        runs = list(slowed(noise, ratio, seeds))
        wrong += sum(bad for _, bad in runs)
        late = [over for over, _ in runs if over is not None]
        soon = sum(over <= 2.0 for over in late)
        median = f"{statistics.median(late):+.0f} s" if late else "-"
        cells.append(f"{soon / len(runs):4.0%} / {len(late) / len(runs):4.0%} / {median:>5}")
    return f"| {name} | {healthy(noise, minutes, seeds)} | {' | '.join(cells)} | {wrong} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3.0, help="of each healthy run")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--equal", type=float, metavar="HOURS", help="watch equal workers only, for this long in all")
    arguments = parser.parse_args()
    started = time.perf_counter()
    if arguments.equal:
        return ExitStatus.UNHEALTHY if equal(arguments.equal) > 1 else ExitStatus.WELL
    hours = len(SHAPES) * arguments.seeds * arguments.minutes / 60
    print(f"| noise | names in {hours:.1f} healthy hours | 1.15x | 1.3x | 2x | wrong names in slowed runs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, noise in NOISES.items():
        if arguments.only in name:
            print(row(name, noise, arguments.minutes, arguments.seeds), flush=True)
    print(f"took {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
