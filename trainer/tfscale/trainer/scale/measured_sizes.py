"""Measured sizes: throughput, efficiency, whether workers shared cores, the knee, and what follows from them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tfscale.core.comparison.judgement import Judgement, Verdict, judge_sets
from tfscale.core.comparison.published_speedups import contention
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.comparison.size_forecast import FEWEST_SIZES, Forecast, efficiency, forecast
from tfscale.trainer.compare.measured_run import MeasuredRun
from tfscale.trainer.scale.scaling_plan import ScalingPlan

SHARED = 0.05
"""Growth of a worker's compute from which its cores were not its own, and share of a step that it may cost."""
WORTH = 0.5
"""Part of one worker's throughput that a further worker brings at least up to the knee."""
_TELLING = 0.1
"""Least part of a step that is compute, from which its growth tells of cores: of `examples/multi_worker_fit.py` it is
0.2 of 4.7 ms, and half as much again beside other workers, whatever their cores."""
_SAME = 0.02
"""Relative difference up to which two numbers of examples are one, which batches that do not divide need."""


@dataclass(frozen=True, slots=True)
class Size:
    """Runs of one size of the plan."""

    number: int
    """Number of workers, or of the hosts on which they are."""
    workers: int
    runs: Sequence[MeasuredRun]
    by_examples: bool
    """True where rates count examples; else the steps of all workers, or those of one where the batch is shared."""
    is_strong: bool

    @property
    def measured(self) -> list[MeasuredRun]:
        return [run for run in self.runs if not run.reason and run.step]

    @property
    def reason(self) -> str:
        """Reason for which a run was not measured; empty without one."""
        return next((run.reason for run in self.runs if run.reason), "")

    @property
    def rates(self) -> list[float]:
        """Throughput of each run, in `unit` of the sizes."""
        return [self._work(run) / run.step for run in self.measured if run.step]

    def _work(self, run: MeasuredRun) -> float:
        if self.by_examples:
            return run.examples or 1
        return 1 if self.is_strong else self.workers

    @property
    def rate(self) -> float:
        return fmean(self.rates)

    @property
    def step(self) -> float:
        """Mean step in seconds."""
        return fmean(run.step for run in self.measured if run.step)

    def phase(self, name: str) -> float | None:
        """Return the mean of a phase of the leading worker in seconds; None where a run does not know it."""
        known = [run.phases.get(name) for run in self.measured]
        return fmean(value for value in known if value is not None) if known and None not in known else None

    @property
    def compute(self) -> float | None:
        """Compute of a step in the median run, in seconds; None if it is not known."""
        known = [run.phases["compute"] for run in self.measured if run.phases.get("compute")]
        return median(known) if known else None

    @property
    def examples(self) -> int | None:
        """Examples of a step of all workers; None where the runs do not tell it, or differ."""
        known = {run.examples for run in self.measured}
        return known.pop() if len(known) == 1 else None

    @property
    def reduced(self) -> int | None:
        """Bytes that each worker gives to the collectives of a step; None for one alone, or where runs differ."""
        known = {run.reduced for run in self.measured}
        return known.pop() if len(known) == 1 and self.workers > 1 else None

    @property
    def link_bytes(self) -> float | None:
        """Bytes of a step over each link of a ring of its workers; None where `reduced` is."""
        if not self.reduced:
            return None
        return volume(self.reduced, self.workers, (self.measured[0].gathered or 0) / self.reduced)

    @property
    def is_apart(self) -> bool:
        """True where no strategy joins its workers: each trains for itself, unless the script exchanges something."""
        return self.workers > 1 and any(run.is_joined is False for run in self.measured)

    @property
    def has_own_cores(self) -> bool | None:
        """True where no two workers had a core in common; None where that is not known."""
        known = {run.has_own_cores for run in self.measured}
        return False if False in known else None if None in known else True


@dataclass(frozen=True, slots=True)
class Contention:
    """Amdahl's contention between one worker and `workers`."""

    workers: int
    value: float
    low: float | None
    """Lower bound; None for a single run a size, from which no interval follows."""
    high: float | None


class MeasuredSizes:
    """All sizes of a plan with their runs, and what is known of them."""

    def __init__(self, plan: ScalingPlan, runs: Mapping[int, Sequence[MeasuredRun]]) -> None:
        self.plan = plan
        ended = [run for found in runs.values() for run in found if not run.reason and run.step]
        self.by_examples = bool(ended) and all(run.examples for run in ended)
        self.all = [
            Size(size, plan.workers_of(size), runs.get(size, ()), self.by_examples, plan.is_strong)
            for size in plan.sizes
        ]
        self.measured = [size for size in self.all if size.measured]

    @property
    def unit(self) -> str:
        """Unit of the rates."""
        if self.by_examples:
            return "examples/s"
        return "steps/s" if self.plan.is_strong else "worker-steps/s"

    @property
    def missing(self) -> list[Size]:
        """Sizes that have not all their runs, and none that failed."""
        return [size for size in self.all if not size.reason and len(size.measured) < self.plan.runs]

    @property
    def failed(self) -> list[Size]:
        return [size for size in self.all if size.reason]

    def efficiency(self, size: Size) -> float:
        """Return the efficiency of a size against as many of the smallest size's workers."""
        first = self.measured[0]
        return efficiency(size.workers / first.workers, size.rate, first.rate)

    @property
    def is_apart(self) -> bool:
        """True where the workers of a size train each for itself."""
        return any(size.is_apart for size in self.measured)

    @property
    def other_kind(self) -> str:
        """Way in which the runs scale instead of the planned one; empty where it is the planned one or not known."""
        if (
            self.is_apart
            or self.plan.workers
            or len(self.measured) < 2
            or not (few := self.measured[0].examples)
            or not (many := self.measured[-1].examples)
        ):
            return ""
        workers = self.measured[-1].workers / self.measured[0].workers
        is_weak, is_strong = (abs(many / few / growth - 1) < _SAME for growth in (workers, 1))
        found = "weak" if is_weak else "strong" if is_strong else "neither weak nor strong"
        return "" if found == self.plan.kind else found

    def compute_growth(self, size: Size) -> float | None:
        """Return the growth of a step's compute since the smallest size, as a fraction; None if that tells nothing.

        With strong scaling a worker of more has less to compute, and there are steps that compute next to nothing.
        """
        first, now = self.measured[0], size.compute
        if self.plan.is_strong or not now or not first.compute or first.compute < _TELLING * first.step:
            return None
        return now / first.compute - 1

    def is_shared(self, size: Size) -> bool:
        """Decide whether the workers of a size had not the cores that those of the smallest had.

        It is told by compute, and where that tells nothing by whether there were enough cores. As many workers on
        other hosts must have cores of their own.
        """
        if self.plan.workers and size.has_own_cores is False:
            return True
        if size is self.measured[0]:
            return False
        growth = self.compute_growth(size)
        return size.has_own_cores is False if growth is None else growth > SHARED

    def shared_cost(self, size: Size) -> float | None:
        """Return the share of a size's step by which shared cores made its compute longer; None if it is not known."""
        growth, first = self.compute_growth(size), self.measured[0].compute
        return None if growth is None or not first else max(0.0, growth * first / size.step)

    @property
    def says_nothing(self) -> bool:
        """True where shared cores made the step of the largest size longer by more than SHARED, or may have.

        Where links are slow workers wait for them, and may share cores meanwhile.
        """
        if self.plan.workers:
            return any(self.is_shared(size) for size in self.measured)
        if len(self.measured) < 2 or not self.is_shared(last := self.measured[-1]):
            return False
        return (cost := self.shared_cost(last)) is None or cost > SHARED

    @property
    def forecast(self) -> Forecast | None:
        """Forecast for twice the largest size; None for fewer than three sizes, or where they say nothing.

        Its band is that of the rules over the whole spread of the runs of the last two sizes.
        """
        if len(self.measured) < FEWEST_SIZES or not self.is_judged or self.plan.workers:
            return None
        workers, to = [size.workers for size in self.measured], 2 * self.measured[-1].workers
        rates = [size.rate for size in self.measured]
        middle = forecast(workers, rates, to)
        ends = [(min(size.rates), max(size.rates)) for size in self.measured[-2:]]
        corners = [forecast(workers, [*rates[:-2], *corner], to) for corner in itertools.product(*ends)]
        low, high = min(each.low for each in corners), max(each.high for each in corners)
        return Forecast(to, middle.throughput, min(low, middle.low), max(high, middle.high))

    @property
    def is_judged(self) -> bool:
        """True where the sizes tell something about scaling, in the planned way."""
        return len(self.measured) > 1 and not (self.says_nothing or self.other_kind or self.is_apart)

    @property
    def contention(self) -> Contention | None:
        """Contention from one worker to the largest size, by the interval of the ratio of their times.

        None where the smallest size is no single worker: nothing is known of a speedup then.
        """
        first, last = self.measured[0], self.measured[-1]
        if first.workers > 1 or last.workers == first.workers:
            return None
        judged = self.against(first, last)
        value = contention(last.workers, last.rate / first.rate)
        if judged.high == math.inf:
            return Contention(last.workers, value, None, None)
        low, high = (contention(last.workers, 1 / (1 + change)) for change in (judged.low, judged.high))
        return Contention(last.workers, value, low, high)

    @property
    def knee(self) -> int | None:
        """Largest size before workers bring less than WORTH of a worker of the smallest; None where there is none.

        More hosts bring no workers: with these there is none either.
        """
        if self.plan.workers:
            return None
        one = self.measured[0].rate / self.measured[0].workers
        for before, after in itertools.pairwise(self.measured):
            if (after.rate - before.rate) / (after.workers - before.workers) < WORTH * one:
                return before.workers
        return None

    @property
    def next_size(self) -> int | None:
        """Size that is worth measuring next; None where the knee is known to the worker."""
        if self.plan.workers:
            return None
        if self.knee is None:
            return 2 * self.measured[-1].workers
        after = next(size.workers for size in self.measured if size.workers > self.knee)
        return (self.knee + after) // 2 if after - self.knee > 1 else None

    def against(self, base: Size, size: Size) -> Judgement:
        """Judge the time of an example of a size against that of another one."""
        of_base, of_size = ([1 / rate for rate in each.rates] for each in (base, size))
        return judge_sets(of_base, of_size)

    @property
    def as_fast(self) -> tuple[Size, Judgement] | None:
        """Smallest size that is surely as fast as the largest, or faster; None without one."""
        for size in self.measured[:-1]:
            judged = self.against(self.measured[-1], size)
            if judged.verdict in (Verdict.WITHIN, Verdict.FASTER):
                return size, judged
        return None

    @property
    def perhaps_as_fast(self) -> Size | None:
        """Smallest size whose runs are as fast in the mean, and too few or too far apart to be sure."""
        for size in self.measured[:-1]:
            judged = self.against(self.measured[-1], size)
            if judged.verdict is Verdict.UNDECIDED and judged.change <= 0 and judged.high < math.inf:
                return size
        return None
