"""Restarts of equal and of slowed clusters: how often a gain is told that is none, and how well one is measured.

    .venv/bin/python scripts/bench/restart_gains.py [--seeds N]

Of each cluster and each kind of noise a minute is compared with half a minute that begins 40 s later, as of a restart
that changes nothing; and with one in which every step is 1.1 or 1.3 times as fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tfscale.console.analysis.restarts.step_rate import Change, RateHistory, StepRate
from tfscale.console.analysis.steps.arrays import Floats

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/harness"))

from phase_simulation import Noise, Simulation

CLUSTERS = ((1, 20.0), (2, 0.5), (2, 5.0), (2, 200.0), (4, 50.0), (8, 20.0), (32, 10.0))
"""(workers, steps a second) of each."""
NOISES = (
    ("white, 2 %", Noise(0.02)),
    ("white, 5 %", Noise(0.05)),
    ("white, 15 %", Noise(0.15)),
    ("memory 0.8, 5 %", Noise(0.05, memory=0.8)),
    ("memory 0.95, 5 %", Noise(0.05, memory=0.95)),
    ("memory 0.95, 15 %", Noise(0.15, memory=0.95)),
    ("bursts 1.6x of 3 s, 10 %", Noise(0.05, bursts=0.10)),
)
GAINS = (1.0, 1.1, 1.3)
BEFORE, GAP, AFTER = 60.0, 40.0, 30.0
LEAST = 20
"""Steps of which the time after a restart has at least."""


def changes(workers: int, rate: float, noise: Noise, seed: int) -> list[Change]:
    """Return the change that is measured for each of GAINS."""
    after = max(AFTER, LEAST / rate)
    ends, _ = Simulation(workers, rate, BEFORE + GAP + 2 * after, noise, seed=seed).steps()
    later = ends[(ends > BEFORE + GAP) & (ends <= BEFORE + GAP + after)]
    return [Change.between(rate_of(ends[ends <= BEFORE]), rate_of(later / gain)) for gain in GAINS]


def rate_of(ends: Floats) -> StepRate:
    blocks = RateHistory()
    blocks.append(ends)
    rate = blocks.rate()
    assert rate is not None
    return rate


def row(name: str, found: Sequence[Sequence[Change]]) -> str:
    cells = [f"{np.mean([each[index].is_real for each in found]):.1%}" for index in range(len(GAINS))]
    errors = [abs(each[-1].share - (GAINS[-1] - 1)) for each in found]
    noise = [each[0].noise for each in found]
    return f"| {name} | {' | '.join(cells)} | {np.median(errors):.1%} | {np.median(noise):.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="restarts of each cluster")
    seeds = parser.parse_args().seeds
    print("| noise | told as a change: equal | 1.1x | 1.3x | error of 1.3x, median | to within, median |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, noise in NOISES:
        found = [changes(*cluster, noise, seed) for cluster in CLUSTERS for seed in range(seeds)]
        print(row(name, found), flush=True)


if __name__ == "__main__":
    main()
