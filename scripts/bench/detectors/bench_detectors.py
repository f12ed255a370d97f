"""Detectors of stragglers beside each other on the same simulated clusters: docs/how-it-works/yardstick.md.

    scripts/bench_detectors [--seeds N] [--only WORDS] [--rule NAME]

Each cell pools clusters of 2 to 256 workers with steps of 20 ms to 5 s, slowed 1.1 to 2 times. Every rule is asked once
a second, or after each step where that takes longer. Healthy clusters run for 15 minutes; their first minute counts
as a start. In pieces: `--only` chooses rows, named as they are printed, such as "noise: white", "slowness: passing",
"hour: bursty" or "starts: bursty".
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from rivals import ChangePoint, Detector, Floats, Name, NVRx, TraceML
from slow_clusters import FAULTS, MOVES_AT_ONCE, NOISES, Cluster, Turn, cluster
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch

SHAPES = ((2, 0.1), (4, 0.02), (8, 0.2), (32, 0.5), (8, 2.0), (256, 1.0), (3, 5.0))
RATIOS = (1.1, 1.3, 2.0, 1.5)
HEALTHY, START = 900.0, 60.0
"""Seconds that a healthy cluster runs, and those of them that are its start."""
COLUMNS = ("F1", "named", "wrong", "delay", "end", "onset off", "phase", "cost off: median (most)", "blamed nobody")
STARTS = 9
"""Starts of each shape."""
SLOW_TO_BLAME = 20.0
"""Seconds of slowness after which nobody must be told to be behind what is lost."""
GRACE = 2.0
"""Seconds, or steps, after the true end up to which a name counts as one of the slowness that is over."""


@dataclass
class TfScale:
    """This project's rule."""

    watch: StragglerWatch = field(default_factory=StragglerWatch)
    blamed_nobody: bool = False
    """True while it says that nobody is to repair."""

    def judge(self, end: Floats, phases: Floats) -> Sequence[Name]:
        subjects = tuple(f"worker:{column}" for column in range(phases.shape[2]))
        steps = AlignedSteps(subjects, np.arange(len(end)), end, phases)
        names, self.blamed_nobody = [], False
        for found in self.watch.diagnose(steps.after(self.watch.follow(subjects)), steps.since):
            if found.kind == "imbalance":
                self.blamed_nobody = "nobody to repair" in found.sentence
            else:
                evidence = found.evidence
                cost = 1 - 1 / float(evidence["slowdown"] or 1.0)
                names.append(Name(subjects.index(found.subject), str(evidence["phase"]), cost, found.begin))
        return names


RULES: dict[str, Callable[[], Detector]] = {
    "tfscale": TfScale,
    "TraceML": TraceML,
    "NVRx": NVRx,
    "change point": ChangePoint,
}


@dataclass
class Score:
    """Sums over runs."""

    right: int = 0
    missed: int = 0
    wrong: int = 0
    blamed_nobody: int = 0
    delays: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    onsets: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    phases: list[bool] = field(default_factory=list)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, 2 * self.right + self.missed + self.wrong)

    def __str__(self) -> str:
        told = [
            f"{self.f1:.2f}",
            f"{self.right}/{self.right + self.missed}",
            str(self.wrong),
            _middle(self.delays, "{:.0f} s"),
            _middle(self.ends, "{:.0f} s"),
            _middle(self.onsets, "{:.1f} s"),
            f"{np.mean(self.phases):.0%}" if self.phases else "-",
            f"{_middle(self.costs, '{:.1%}')} ({max(self.costs):.0%})" if self.costs else "-",
            str(self.blamed_nobody),
        ]
        return " | ".join(told)


def _middle(values: Sequence[float], form: str) -> str:
    return form.format(statistics.median(values)) if values else "-"


def evaluations(run: Cluster, detector: Detector) -> Iterator[tuple[float, int, Sequence[Name]]]:
    """Yield (time, steps up to then, names) at every evaluation."""
    seen, second = 0, 1.0
    while seen < len(run.end):
        stop = int(np.searchsorted(run.end, second, side="right"))
        if stop > seen:
            yield second, stop, detector.judge(run.end[:stop], run.phases[:, :stop])
            seen = stop
        second += 1.0


@dataclass
class Told:
    """Slow worker of a run, and when it was named."""

    turn: Turn
    onset: float
    over: float
    first: float | None = None
    newest: float = 0.0
    last: tuple[int, Name] | None = None
    """Its last name while it was slow, with the number of steps that were known."""

    def takes(self, name: Name, at: float, stop: int, grace: float) -> bool:
        """Take a name at a moment, and return whether it is right; up to `grace` seconds after the end it may begin."""
        is_late = self.first is None and at > self.over + grace
        if name.worker != self.turn.worker or at < self.onset or is_late:
            return False
        self.first, self.newest = at if self.first is None else self.first, at
        if at <= self.over:
            self.last = stop, name
        return True


def judge_run(run: Cluster, detector: Detector, names_nobody: bool, score: Score) -> None:
    """Add one run to the score. `names_nobody`: it is right to name no worker."""
    turns = () if names_nobody else run.turns
    slow = [Told(turn, float(run.end[turn.first - 1]), float(run.end[turn.last])) for turn in turns]
    wrong: set[int] = set()
    nobody = False
    for at, stop, names in evaluations(run, detector):
        is_slow = any(told.onset + SLOW_TO_BLAME < at < told.over for told in slow)
        nobody = nobody or (is_slow and isinstance(detector, TfScale) and detector.blamed_nobody)
        grace = GRACE * max(1.0, float(run.step[stop - 1]))
        # A name that stays is of the newest turn of its worker.
        wrong |= {
            name.worker for name in names if not any(told.takes(name, at, stop, grace) for told in reversed(slow))
        }
    score.wrong += len(wrong)
    score.blamed_nobody += nobody
    for told in slow:
        score.right += told.first is not None
        score.missed += told.first is None
        if told.first is None:
            continue
        score.delays.append(told.first - told.onset)
        if told.over < run.end[-1] - 1:
            score.ends.append(max(0.0, told.newest - told.over))
        if told.last is not None:
            _compare(run, told.onset, *told.last, score)


def _compare(run: Cluster, onset: float, stop: int, name: Name, score: Score) -> None:
    """Add how right phase, onset and cost of a name were when `stop` steps were known."""
    if name.phase is not None:
        score.phases.append(name.phase == run.phase)
    if name.begin is not None:
        score.onsets.append(abs(name.begin - onset))
    if name.cost is not None:
        since = run.end[:stop] > onset
        true = 1 - float(run.without[:stop][since].mean() / run.step[:stop][since].mean())
        score.costs.append(abs(name.cost - true))


def false_names(run: Cluster, detector: Detector) -> list[float]:
    """Return when workers of a healthy cluster begin to be named."""
    begins, before = list[float](), set[int]()
    for at, _, names in evaluations(run, detector):
        now = {name.worker for name in names}
        begins, before = begins + [at] * len(now - before), now
    return begins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rule", choices=RULES, action="append", help="may be repeated (all)")
    arguments = parser.parse_args()
    rules = arguments.rule or list(RULES)
    pairs = [(noise, fault) for noise in NOISES for fault in FAULTS]
    rows = [(f"noise: {noise}", [pair for pair in pairs if pair[0] == noise]) for noise in NOISES]
    rows += [(f"slowness: {fault}", [pair for pair in pairs if pair[1] == fault]) for fault in FAULTS]
    chosen = [row for row in rows if arguments.only in row[0]]
    if chosen:
        print(f"| noise or slowness | rule | {' | '.join(COLUMNS)} |\n| --- |{' --- |' * (1 + len(COLUMNS))}")
    for row, cells in chosen:
        for rule in rules:
            score = score_of(rule, cells, arguments.seeds)
            print(f"| {row if rule == rules[0] else ''} | {rule} | {score} |", flush=True)
    for word, title, cell in (
        ("hour", "false names in a healthy hour", hourly),
        ("starts", "starts with a false name", false_starts),
    ):
        if noises := [noise for noise in NOISES if arguments.only in f"{word}: {noise}"]:
            print(f"\n| {title} | {' | '.join(noises)} |\n| --- |{' --- |' * len(noises)}")
            for rule in rules:
                print(f"| {rule} | {' | '.join(cell(rule, noise, arguments.seeds) for noise in noises)} |", flush=True)


def score_of(rule: str, cells: Sequence[tuple[str, str]], seeds: int) -> Score:
    score = Score()
    for noise, fault in cells:
        for index, (workers, step) in enumerate(SHAPES * seeds):
            if fault.startswith("two") and workers < 4:
                continue
            number = 1000 * NOISES.index(noise) + 100 * FAULTS.index(fault) + index
            ratio = RATIOS[(number // 100 + index) % len(RATIOS)]
            run = cluster(workers, step, noise, 50_000 + number, fault=fault, ratio=ratio)
            judge_run(run, RULES[rule](), fault == MOVES_AT_ONCE, score)
    return score


def hourly(rule: str, noise: str, seeds: int) -> str:
    """Return the false names in an hour of healthy clusters after their first minute."""
    count, seconds = 0, 0.0
    for index, (workers, step) in enumerate(SHAPES * seeds):
        run = cluster(workers, step, noise, 90_000 + 100 * NOISES.index(noise) + index, seconds=HEALTHY)
        count += sum(at > START for at in false_names(run, RULES[rule]()))
        seconds += float(run.end[-1]) - START
    return f"{count / seconds * 3600:.1f}"


def false_starts(rule: str, noise: str, seeds: int) -> str:
    """Return in how many starts of healthy clusters somebody is named within the first minute."""
    count, shapes = 0, SHAPES * STARTS * seeds
    for index, (workers, step) in enumerate(shapes):
        run = cluster(workers, step, noise, 70_000 + 1000 * NOISES.index(noise) + index, seconds=START)
        count += bool(false_names(run, RULES[rule]()))
    return f"{count}/{len(shapes)}"


if __name__ == "__main__":
    main()
