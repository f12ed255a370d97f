"""How often a healthy cluster shows somebody who looks slow, and how long before the name a slow one is shown.

    .venv/bin/python scripts/bench/detectors/suspects.py [--hours H] [--only WORDS]

Clusters are those of slow_clusters.py. An hour of each noise is split among the shapes; starts are its first minute.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from slow_clusters import NOISES, Cluster, cluster
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch

SHAPES = ((2, 0.05), (3, 0.1), (8, 0.1), (16, 0.5), (32, 0.05), (64, 0.2))
"""(workers, seconds of a step) of the clusters."""
START, SLOWED = 60.5, 120.0
"""Seconds of a start, and of a run in which somebody is slow from the 60th on."""
RATIOS = (1.15, 1.3, 2.0)


@dataclass
class Shown:
    """Suspects and names of one run, second by second."""

    suspects: list[str | None]
    named: list[frozenset[str]]

    @property
    def spells(self) -> int:
        """Number of times that somebody began to look slow."""
        return sum(now is not None and now != before for before, now in pairwise([None, *self.suspects]))


def watch(run: Cluster) -> Shown:
    workers = run.phases.shape[2]
    subjects = tuple(f"worker:{index}" for index in range(workers))
    rule, shown = StragglerWatch(), Shown([], [])
    for second in range(1, int(run.end[-1]) + 1):
        high = int(np.searchsorted(run.end, second))
        low = max(0, high - 4000)
        steps = AlignedSteps(subjects, np.arange(low, high), run.end[low:high], run.phases[:, low:high])
        found = rule.diagnose(steps.after(rule.follow(subjects)), steps.since)
        shown.named.append(frozenset(each.subject for each in found if each.kind == "straggler"))
        shown.suspects.append(rule.named.suspect.subject if rule.named.suspect else None)
    return shown


def healthy(noise: str, hours: float) -> tuple[float, float, float]:
    """Return (spells an hour, share of the seconds, spells in the first minute of a start)."""
    seconds = hours * 3600 / len(SHAPES)
    runs = [watch(cluster(workers, step, noise, 77 + workers, seconds=seconds)) for workers, step in SHAPES]
    total = sum(len(run.suspects) for run in runs)
    shown = sum(each is not None for run in runs for each in run.suspects)
    starts = [
        watch(cluster(workers, step, noise, 500 + seed, seconds=START)) for workers, step in SHAPES for seed in range(5)
    ]
    return (
        sum(run.spells for run in runs) / (total / 3600),
        shown / total,
        sum(run.spells for run in starts) / len(starts),
    )


def lead(noise: str, ratio: float) -> str:
    """Return how often the slow one is shown before it is named, and the medians of both delays."""
    first, named = [], []
    for workers, step in SHAPES:
        for seed in range(2):
            run = cluster(workers, step, noise, 900 + seed, fault="permanent", ratio=ratio, seconds=SLOWED)
            culprit, begin = f"worker:{run.turns[0].worker}", float(run.end[run.turns[0].first - 1])
            shown = watch(run)
            late = [second + 1 for second, names in enumerate(shown.named) if culprit in names and second + 1 >= begin]
            soon = [second + 1 for second, name in enumerate(shown.suspects) if name == culprit and second + 1 >= begin]
            named.append(late[0] - begin if late else np.inf)
            first.append(min(soon[0] - begin if soon else np.inf, named[-1]))
    earlier = sum(one < other for one, other in zip(first, named, strict=True))
    return f"{earlier}/{len(first)}, {statistics.median(first):.0f} / {statistics.median(named):.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of each noise")
    parser.add_argument("--only", default="", help="noises whose name contains this")
    parser.add_argument("--healthy", action="store_true", help="without the slowed clusters")
    arguments = parser.parse_args()
    columns = [] if arguments.healthy else [f"{ratio}x" for ratio in RATIOS]
    print(f"| {' | '.join(['noise', 'spells an hour', 'of the time', 'a start', *columns])} |")
    print(f"| --- |{' --- |' * (3 + len(columns))}")
    for noise in NOISES:
        if arguments.only in noise:
            an_hour, share, start = healthy(noise, arguments.hours)
            cells = [noise, f"{an_hour:.1f}", f"{share:.2%}", f"{start:.2f}"]
            cells += [] if arguments.healthy else [lead(noise, ratio) for ratio in RATIOS]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
