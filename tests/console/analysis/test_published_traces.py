"""The published traces, in which no worker straggles, as they are and with one worker made slower.

The rule may be tuned on two of the groups and on simulated clusters; the others are held out.
"""

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch

TUNED = ("ST-0", "ST-1")
"""Groups on which the rule may be tuned; held out are their two siblings, and SE-1, the only one of its trace."""


def published() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return (lag, reduce) of each group of equal workers in the published traces, (steps, workers) seconds."""
    groups: dict[str, dict[tuple[int, int], tuple[float, float]]] = defaultdict(dict)
    with (Path(__file__).parents[2] / "data" / "worker_steps.csv").open() as file:
        for row in csv.DictReader(file):
            cell = (float(row["compute_s"]), float(row["collective_s"]))
            groups[f"{row['trace']}-{row['stage']}"][int(row["step"]), int(row["worker"])] = cell
    return {name: _matrix(cells) for name, cells in groups.items()}


def _matrix(cells: dict[tuple[int, int], tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    steps, workers = (sorted(set(axis)) for axis in zip(*cells, strict=True))
    values = np.array([[cells[step, worker] for worker in workers] for step in steps])
    return values[..., 0], values[..., 1]


def named(lag: np.ndarray, reduce: np.ndarray, rule: Rule | None = None) -> dict[int, int]:
    """Return the number of steps after which each worker was named, with an evaluation after every step."""
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, reduce]).astype(np.float32)
    end = np.cumsum((lag + reduce).max(axis=1))
    subjects = tuple(f"worker:{column}" for column in range(lag.shape[1]))
    watch = StragglerWatch(rule or Rule())
    seen: dict[int, int] = {}
    for stop in range(1, len(lag) + 1):
        steps = AlignedSteps(subjects, np.arange(stop), end[:stop], phases[:, :stop])
        for found in watch.diagnose(steps.after(watch.follow(subjects)), steps.since):
            if found.kind == "straggler":
                seen.setdefault(subjects.index(found.subject), stop)
    return seen


def slowed(
    lag: np.ndarray, reduce: np.ndarray, worker: int, ratio: float, onset: int, rule: Rule | None = None
) -> dict[int, int]:
    """Return the same where one worker computes `ratio` times as long from step `onset` on, and the others wait."""
    slow = lag.copy()
    slow[onset:, worker] *= ratio
    network = reduce.min(axis=1, keepdims=True)
    return named(slow, network + slow.max(axis=1, keepdims=True) - slow, rule)


@pytest.mark.parametrize("group", published())
def test_nobody_is_named_in_the_published_traces(group: str) -> None:
    assert named(*published()[group]) == {}


@cache
def delays_of(group: str, ratio: float, begins: float) -> tuple[list[int | None], int]:
    """Return the steps until each slowed worker is named, None where it is not, and the number of wrong names."""
    lag, reduce = published()[group]
    onset = int(begins * len(lag))
    runs = [slowed(lag, reduce, worker, ratio, onset) for worker in range(lag.shape[1])]
    delays = [run[worker] - onset if worker in run else None for worker, run in enumerate(runs)]
    return delays, sum(len(run) for run in runs) - sum(delay is not None for delay in delays)


def told_of(half: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the groups of one half."""
    return {name: group for name, group in published().items() if (name in TUNED) == (half == "tuned")}


@pytest.mark.parametrize("half", ["tuned", "held out"])
@pytest.mark.parametrize(
    ("ratio", "begins", "recall"), [(1.15, 0.0, 1.0), (1.15, 0.5, 0.95), (1.10, 0.0, 0.8), (1.10, 0.5, 0.35)]
)
def test_a_worker_of_the_published_traces_that_is_made_slower_is_named(
    ratio: float, begins: float, recall: float, half: str
) -> None:
    """From the middle of a trace on there are only 16 to 22 steps left, too few for 1.10x beside noise of 9 %."""
    every: list[int | None] = []
    print(f"\n{half}, {ratio:.2f}x  from step    named  median steps until then  most  wrong names")
    for group, (lag, _) in told_of(half).items():
        delays, wrong = delays_of(group, ratio, begins)
        late = [delay for delay in delays if delay is not None]
        share = f"{len(late)} of {len(delays)}"
        onset = int(begins * len(lag))
        print(f"{group:>{len(half) + 7}}  {onset:9}  {share:>9}  {median(late):21.0f}  {max(late):4}  {wrong:11}")
        assert wrong == 0
        every += delays
    late = [delay for delay in every if delay is not None]
    print(f"{len(late)} of {len(every)} named, after {median(late):.0f} steps (median)")
    assert len(late) >= recall * len(every)
    # The noise of SE-1, 9 %, needs more steps for 1.10x.
    assert median(late) <= (25 if ratio == 1.10 else 20)


@pytest.mark.parametrize("ratio", [1.15, 1.10])
def test_of_all_workers_of_the_published_traces_the_median_is_named_soon(ratio: float) -> None:
    delays = [delay for group in published() for delay in delays_of(group, ratio, 0.0)[0]]
    late = [delay for delay in delays if delay is not None]
    print(f"\n{ratio:.2f}x: {len(late)} of {len(delays)} named, after {median(late):.0f} steps (median)")
    assert len(late) >= (1.0 if ratio == 1.15 else 0.8) * len(delays)
    assert median(late) <= (25 if ratio == 1.10 else 20)


def test_no_number_of_the_rule_is_set_by_the_half_that_it_may_be_tuned_on() -> None:
    """Ten times fewer or more false names and a lower threshold name the same workers there.

    The numbers come from how often equal workers are named in simulation, and from what a repair is worth.
    """
    for rule in (Rule(chance=1.25e-6), Rule(), Rule(chance=1.25e-4), Rule(on=1.05)):
        named_by = {
            (group, ratio, worker): set(slowed(*traces, worker, ratio, 0, rule))
            for group, traces in told_of("tuned").items()
            for ratio in (1.10, 1.15)
            for worker in range(2)
        }
        assert all(names == {worker} for (_, _, worker), names in named_by.items())
        assert all(named(*traces, rule) == {} for traces in told_of("tuned").values())


def test_the_last_stage_is_named_where_all_stages_are_taken_as_one_group() -> None:
    """Two of eight that are 1.62 times as slow in every step are named as fast as one."""
    stages = [published()[f"ST-{stage}"][0] for stage in range(4)]
    lag = np.concatenate([stage[: min(map(len, stages))] for stage in stages], axis=1)
    seen = named(lag, 0.05 + lag.max(axis=1, keepdims=True) - lag)
    assert set(seen) == {6, 7} and max(seen.values()) <= 15


def production_job() -> np.ndarray:
    """Return (samples, workers) normalised times of a mini-batch."""
    cells: dict[int, dict[int, float]] = defaultdict(dict)
    with (Path(__file__).parents[2] / "data" / "production_job.csv").open() as file:
        for row in csv.DictReader(file):
            cells[int(row["sample"])][int(row["worker"])] = float(row["batch_time_norm"])
    return np.array([[row[worker] for worker in sorted(row)] for _, row in sorted(cells.items())])


def test_the_five_stragglers_of_a_production_job_are_named_together_and_nobody_else() -> None:
    batch = 0.1 * production_job()
    end = 10.0 * np.arange(1, len(batch) + 1)
    phases = np.stack([batch * 0, batch * 0, batch * 0, batch, 0.1 + batch.max(axis=1, keepdims=True) - batch])
    subjects = tuple(f"worker:{column}" for column in range(batch.shape[1]))
    watch, slow = StragglerWatch(), {f"worker:{column}" for column in (0, 5, 6, 7, 8)}
    for stop in range(1, 31):
        steps = AlignedSteps(subjects, np.arange(stop), end[:stop], phases[:, :stop].astype(np.float32))
        found = watch.diagnose(steps.after(watch.follow(subjects)), steps.since)
        assert {each.subject for each in found if each.kind == "straggler"} <= slow
    assert {each.subject for each in found} == slow
    (sentence,) = {each.sentence for each in found}
    assert sentence.startswith("5 of 10 workers (worker:0, 5, 6, 7 and 8) have been slow since ")
    assert len({each.evidence["slowdown"] for each in found}) == 1
    assert all(set(each.together) == slow for each in found)
