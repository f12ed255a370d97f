"""Slowdowns of whole clusters, and of lone workers, beside their baselines: how often, how late, and how often falsely.

    scripts/bench_baselines [--hours H] [--only NOISE]

Healthy runs of an hour, and pairs of runs; then all workers 1.2 to 1.5 times as slow from the middle of a run, and
throughout a second run. The clusters are those of bench_detectors.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from slow_clusters import NOISES, Cluster, cluster
from tfscale.console.analysis.baselines.baseline import Baseline
from tfscale.console.analysis.baselines.run_facts import BaselineKey, RunFacts, Work
from tfscale.console.analysis.baselines.slowdown_watch import Identity, SlowdownWatch, Spell
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps

SHAPES = ((1, 0.02), (1, 0.1), (1, 2.0), (2, 0.1), (8, 0.2), (32, 0.5))
RATIOS = (1.2, 1.25, 1.3, 1.5)
KEY = BaselineKey("train.py", 1, "a host")


@dataclass
class Store:
    """Baselines of one program."""

    kept: list[Baseline] = field(default_factory=list)

    def recall(self, _key: BaselineKey) -> Sequence[Baseline]:
        return self.kept

    def keep(self, baseline: Baseline) -> None:
        self.kept = [min([*self.kept, baseline], key=lambda each: each.step)]


def told(run: Cluster, watch: SlowdownWatch, name: str) -> list[tuple[float, str]]:
    """Return (time, sentence) of each slowdown as it begins to be told."""
    subjects = tuple(f"worker:{column}" for column in range(run.phases.shape[2]))
    identity = Identity(0.0, name, KEY, RunFacts())
    found, begun, seen = [], None, 0
    for second in range(1, int(run.end[-1]) + 1):
        stop = int(np.searchsorted(run.end, second, side="right"))
        steps = AlignedSteps(subjects, np.arange(seen, stop), run.end[seen:stop], run.phases[:, seen:stop])
        watch.compare(Spell((name,), 1, Work()), steps, lambda: identity)
        seen = stop
        for each in watch.open:
            if each.begin != begun:
                begun = each.begin
                found.append((float(second), each.sentence))
    return found


def slower(run: Cluster, ratio: float, begin: float) -> Cluster:
    """Return the run with all workers' own time longer from `begin` seconds on."""
    late = run.end > begin
    phases = run.phases.copy()
    phases[:-1, late] *= ratio
    own = phases[:-1].sum(axis=0)
    transfer = run.phases[-1].min(axis=1)
    phases[-1] = transfer[:, None] + own.max(axis=1, keepdims=True) - own
    return replace(run, phases=phases, end=np.cumsum(own.max(axis=1) + transfer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0, help="of each healthy run (1)")
    parser.add_argument("--only", default="", help="noises whose name contains this")
    arguments = parser.parse_args()
    print("| noise | false an hour | of runs after another, falsely | " + " | ".join(_heads()) + " |")
    print(f"| --- |{' --- |' * (2 + len(_heads()))}")
    for noise in (*NOISES, "wandering"):
        if arguments.only in noise:
            print(f"| {noise} | " + " | ".join(row(noise, arguments.hours)) + " |", flush=True)


def _heads() -> list[str]:
    return [*(f"{ratio}x from the middle on" for ratio in RATIOS), *(f"second run {ratio}x" for ratio in RATIOS)]


def row(noise: str, hours: float) -> list[str]:
    false, seconds, after, pairs = 0, 0.0, 0, 0
    within: dict[float, list[float | None]] = {ratio: [] for ratio in RATIOS}
    between: dict[float, list[float | None]] = {ratio: [] for ratio in RATIOS}
    for index, (workers, step) in enumerate(SHAPES):
        seed = 70_000 + 1000 * [*NOISES, "wandering"].index(noise) + 10 * index
        long = cluster(workers, step, noise, seed, seconds=3600 * hours)
        false, seconds = false + len(told(long, SlowdownWatch(Store()), "first")), seconds + float(long.end[-1])
        short = max(300.0, 150 * step)
        first, second = (cluster(workers, step, noise, seed + number, seconds=short) for number in (1, 2))
        store = Store()
        told(first, SlowdownWatch(store), "first")
        kept = list(store.kept)
        pairs += 1
        after += bool(told(second, SlowdownWatch(Store(kept)), "second"))
        for ratio in RATIOS:
            middle = short / 2
            found = told(slower(first, ratio, middle), SlowdownWatch(), "first")
            within[ratio].append(next((at - middle for at, _ in found if at > middle), None))
            found = told(slower(second, ratio, 0.0), SlowdownWatch(Store(list(kept))), "second")
            between[ratio].append(found[0][0] if found else None)
    delays = [_told(each) for each in (*within.values(), *between.values())]
    return [f"{false / seconds * 3600:.1f}", f"{after}/{pairs}", *delays]


def _told(delays: Sequence[float | None]) -> str:
    known = [delay for delay in delays if delay is not None]
    middle = f", {statistics.median(known):.0f} s" if known else ""
    return f"{len(known)}/{len(delays)}{middle}"


if __name__ == "__main__":
    main()
