"""Study of the ring's formula: an all-reduce takes 2 (n-1)/n x bytes / speed, for the 7,385,640 bytes of `cifar-large`.

On links without a limit the same all-reduce shows what the processors take: serialising, copying and adding up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from shaped_run import Setting, ShapedRun
from study_figures import chart_row, interval_words, milliseconds, ratio_chart
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.plots.chart import Chart

BYTES = 7_385_640
WORKERS = (2, 3)
SPEEDS = (100e6, 200e6, 400e6, None)
"""Bits a second; None: no limit."""
SECONDS = 12
"""Time of a run's steps by the formula, which their number follows."""


def name_of(workers: int, speed: float | None) -> str:
    return f"{workers} workers, {'no limit' if speed is None else f'{speed / 1e6:.0f} Mbit/s'}"


def formula(workers: int, speed: float) -> float:
    """Return the seconds of an all-reduce by a ring, on links of so many bits a second."""
    return 8 * volume(BYTES, workers) / speed


def _setting(workers: int, speed: float | None) -> Setting:
    steps = 40 if speed is None else min(60, max(24, round(SECONDS / formula(workers, speed))))
    words = ["cifar-large", "--strategy", "multi-worker", "--batch", "1", "--examples", "256", "--steps", str(steps)]
    speeds = {} if speed is None else dict.fromkeys(range(workers), speed)
    return Setting(name_of(workers, speed), words, {"worker": workers}, range(workers), speeds)


SETTINGS = [_setting(workers, speed) for workers in WORKERS for speed in SPEEDS]
COLUMNS = (
    "workers, link",
    "formula",
    "all-reduce, median",
    "against the formula",
    "quick",
    "quick against the formula",
    "bytes on the wire against the formula's",
    "formula x bytes + processors",
    "quick against that",
)


def rows(runs: Mapping[str, Sequence[ShapedRun]]) -> list[list[str]]:
    """Return a row for each setting."""
    return [_row(workers, speed, runs) for workers in WORKERS for speed in SPEEDS]


def chart(runs: Mapping[str, Sequence[ShapedRun]]) -> Chart:
    """Return the chart of medians and quick all-reduces against the formula."""
    found = []
    for workers in WORKERS:
        for speed in filter(None, SPEEDS):
            name, ideal = name_of(workers, speed), formula(workers, speed)
            found.append(chart_row(f"{name}, median", [(run.transfer or 0) / ideal for run in runs[name]]))
            found.append(chart_row(f"{name}, quick", [(run.quick_transfer or 0) / ideal for run in runs[name]]))
    return ratio_chart(
        "All-reduce of 7,385,640 bytes against 2 (n-1)/n x bytes / speed", "above the formula", found, 15
    )


def overhead(runs: Sequence[ShapedRun], workers: int) -> float:
    """Return the bytes on the wire as a multiple of the formula's."""
    return fmean(fmean(run.sent) for run in runs) / volume(BYTES, workers)


def _row(workers: int, speed: float | None, runs: Mapping[str, Sequence[ShapedRun]]) -> list[str]:
    these, free = runs[name_of(workers, speed)], runs[name_of(workers, None)]
    medians, quick = [run.transfer or 0 for run in these], [run.quick_transfer or 0 for run in these]
    more = overhead(these, workers)
    first = [name_of(workers, speed)]
    if speed is None:
        return [
            *first,
            "-",
            milliseconds(fmean(medians)),
            "-",
            milliseconds(fmean(quick)),
            "-",
            f"{more - 1:+.1%}",
            "-",
            "-",
        ]
    ideal, processors = formula(workers, speed), fmean(run.quick_transfer or 0 for run in free)
    explained = ideal * more + processors
    return [
        *first,
        milliseconds(ideal),
        milliseconds(fmean(medians)),
        interval_words([each / ideal for each in medians]),
        milliseconds(fmean(quick)),
        interval_words([each / ideal for each in quick]),
        f"{more - 1:+.1%}",
        milliseconds(explained),
        interval_words([each / explained for each in quick]),
    ]
