"""Verdicts of a comparison on this machine's noise: how often no change is told as one, and how often 5 % is found.

    .venv/bin/python scripts/bench/comparison.py                       # 100 rounds, 15 minutes
    .venv/bin/python scripts/bench/comparison.py --kept runs.json      # go on with the rounds of that file
    .venv/bin/python scripts/bench/comparison.py --rounds 0            # only what is computed

Each round runs three programs in processes of their own: one, the same again, and one that computes 5 % more. Every
16 rounds in a row are a comparison of the usual size, judged as `tfscale-train compare` does: by the mean step of
each run, and by its quick steps. Below that, the same of runs whose times are drawn with a known noise, 1,000
comparisons each.

Exit status: 0 when, by the mean step, at least 19 of 20 comparisons of one program find no change and 9 of 10 find the
5 %; 3 when they do not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from tfscale.core.comparison.judgement import Judgement, Verdict, mean_step, quick_step
from tfscale.core.comparison.rounds import MOST, Rounds, order
from tfscale.core.settings.exit_status import ExitStatus

PRODUCTS = (20, 20, 21)
"""Products of matrices in a step of each of the three programs."""
PROGRAM = """
import sys, time
import numpy as np
a = np.random.default_rng(0).random((256, 256), dtype=np.float32)
times = [time.perf_counter()]
for step in range(300):
    for product in range(int(sys.argv[1])):
        a @ a
    times.append(time.perf_counter())
print(*np.diff(times[30:]))
"""
NOISES = (0.01, 0.02, 0.025, 0.03, 0.05)
COMPARISONS = 1000
CHANGE = 0.05
WAYS = {"mean step": mean_step, "quick steps": quick_step}
Runs = list[list[list[float]]]
"""Numbers of each run by WAYS, run by run of each of the three programs."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="rounds of real processes; default 100")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="file that keeps the times of all rounds")
    flags = parser.parse_args()
    measured = rounds(flags.rounds, flags.kept)
    print("| runs | noise between runs | comparisons | no change told | 5 % found | rounds |")
    print("| --- | --- | --- | --- | --- | --- |")
    is_kept = True
    for number, way in enumerate(WAYS) if len(measured[0]) >= MOST else ():
        times = [[run[number] for run in runs] for runs in measured]
        noise = stdev(np.log(times[1]) - np.log(times[0])) / 2**0.5
        begins = range(len(times[0]) - MOST + 1)
        kept = row(f"here, {way}", noise, [[each[begin : begin + MOST] for each in times] for begin in begins])
        is_kept &= kept or number > 0
    for noise in NOISES:
        row("drawn", noise, list(drawn(noise)))
    return ExitStatus.WELL if is_kept else ExitStatus.UNHEALTHY


def rounds(count: int, kept: Path | None) -> Runs:
    """Return the runs of so many rounds, those that the file has first."""
    times: Runs = json.loads(kept.read_text()) if kept and kept.exists() else [[] for _ in PRODUCTS]
    for number in range(len(times[0]), count):
        made = {which: run(PRODUCTS[which]) for which in order(len(PRODUCTS), number)}
        for which, steps in made.items():
            times[which].append([way(steps) for way in WAYS.values()])
        if kept:
            kept.write_text(json.dumps(times))
    return times


def run(products: int) -> list[float]:
    """Return the seconds of each step of a run."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(products)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return [float(word) for word in done.stdout.split()]


def drawn(noise: float) -> Iterator[list[np.ndarray]]:
    generator = np.random.default_rng(0)
    for _ in range(COMPARISONS):
        times = np.exp(generator.normal(0, noise, (3, MOST)))
        yield [times[0], times[1], times[2] * (1 + CHANGE)]


def row(name: str, noise: float, comparisons: Sequence[Sequence[Sequence[float]]]) -> bool:
    """Print how the comparisons were judged; return whether they keep what is promised."""
    same = [judged(base, other) for base, other, _ in comparisons]
    slower = [judged(base, other) for base, _, other in comparisons]
    told = share(same, lambda found: found.verdict in (Verdict.WITHIN, Verdict.UNDECIDED))
    found = share(slower, lambda found: found.verdict is Verdict.SLOWER)
    used = fmean(made for _, made in slower)
    print(f"| {name} | {noise:.1%} | {len(comparisons)} | {told:.0%} | {found:.0%} | {used:.1f} |", flush=True)
    return told >= 0.95 and found >= 0.9


def judged(base: Sequence[float], other: Sequence[float]) -> tuple[Judgement, int]:
    """Return the judgement of a comparison that ends once it is decided, and its rounds."""
    for made in range(1, MOST + 1):
        found = Rounds().judge(base[:made], other[:made], is_last=made == MOST)
        if found is not None and (found.verdict is not Verdict.UNDECIDED or made == MOST):
            return found, made
    raise AssertionError("the last look has a judgement")


def share(found: Sequence[tuple[Judgement, int]], holds: Callable[[Judgement], bool]) -> float:
    return fmean(holds(judgement) for judgement, _ in found)


if __name__ == "__main__":
    sys.exit(main())
