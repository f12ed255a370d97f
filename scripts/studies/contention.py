"""Study of contention of small dense, large dense and sparse models, under a ring on links of 200 Mbit/s.

Contention is Amdahl's a = (N/S - 1) / (N - 1) of a speedup S with N workers: 0 is linear, and at 1 more workers bring
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from shaped_run import Setting, ShapedRun
from study_figures import NOTE, interval, interval_row, milliseconds
from tfscale.core.comparison.published_speedups import contention
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.plots.chart import Axis, Chart, IntervalChart

SPEED = 200e6
MODELS = {"mlp": "small dense", "dense": "large dense", "sparse": "sparse"}
WORKERS = (1, 2, 4)
STEPS = {("dense", 2): 30, ("dense", 4): 24}
"""Steps of a run by model and workers, where these are not those of all others."""


def name_of(model: str, workers: int) -> str:
    return f"{model}, {workers} worker{'s' if workers > 1 else ''}"


def _setting(model: str, workers: int) -> Setting:
    strategy = "multi-worker" if workers > 1 else "one-device"
    steps = STEPS.get((model, workers), 80 if workers > 1 else 400)
    words = [model, "--strategy", strategy, "--examples", "4000", "--steps", str(steps)]
    return Setting(
        name_of(model, workers), words, {"worker": workers}, range(workers), dict.fromkeys(range(workers), SPEED)
    )


SETTINGS = [_setting(model, workers) for model in MODELS for workers in WORKERS]
COLUMNS = (
    "model",
    "workers",
    "step",
    "all-reduce",
    "payload",
    "on each link",
    "against the formula's bytes",
    "speedup",
    "contention",
    "with cores of their own",
)


def rows(runs: Mapping[str, Sequence[ShapedRun]]) -> list[list[str]]:
    """Return a row for each model and number of workers."""
    return [_row(model, workers, runs) for model in MODELS for workers in WORKERS]


def chart(runs: Mapping[str, Sequence[ShapedRun]]) -> Chart:
    """Return the chart of contention, with the cores of the machine and as if each worker had its own."""
    found = []
    for model, words in MODELS.items():
        for workers in WORKERS[1:]:
            alone, these = runs[name_of(model, 1)], runs[name_of(model, workers)]
            found.append(interval_row(f"{words}, {workers} workers", _measured(alone, these, workers)))
            found.append(interval_row("  cores of their own", _with_own_cores(alone, these, workers)))
    return IntervalChart("Contention under a ring on 200 Mbit/s", Axis("Amdahl's contention"), found, 1, notes=[NOTE])


def _measured(alone: Sequence[ShapedRun], these: Sequence[ShapedRun], workers: int) -> list[float]:
    """Return the contention and the ends of its interval."""
    longer = interval([many.step / one.step for one, many in zip(alone, these, strict=True)])
    return [contention(workers, workers / ratio) for ratio in longer]


def _with_own_cores(alone: Sequence[ShapedRun], these: Sequence[ShapedRun], workers: int) -> list[float]:
    """Return the same as if each worker computed as fast as the one alone."""
    longer = interval([1 + (many.transfer or 0) / one.step for one, many in zip(alone, these, strict=True)])
    return [contention(workers, workers / ratio) for ratio in longer]


def _row(model: str, workers: int, runs: Mapping[str, Sequence[ShapedRun]]) -> list[str]:
    these, alone = runs[name_of(model, workers)], runs[name_of(model, 1)]
    row = [f"{MODELS[model]} (`{model}`)", str(workers), milliseconds(fmean(run.step for run in these))]
    if workers == 1:
        return [*row, *["-"] * 7]
    payload = these[0].payload or 0
    on_link = fmean(fmean(run.sent) for run in these)
    by_formula = volume(payload, workers, (these[0].gathered or 0) / payload)
    return [
        *row,
        milliseconds(fmean(run.transfer or 0 for run in these)),
        f"{payload / 1e6:.2f} MB",
        f"{on_link / 1e6:.2f} MB",
        f"{on_link / by_formula - 1:+.1%}",
        f"{fmean(workers * one.step / many.step for one, many in zip(alone, these, strict=True)):.2f}",
        _between(_measured(alone, these, workers)),
        _between(_with_own_cores(alone, these, workers)),
    ]


def _between(values: Sequence[float]) -> str:
    middle, low, high = values
    return f"{middle:.2f} " + (f"({low:.2f} to {high:.2f})" if high < math.inf else "(one run)")
