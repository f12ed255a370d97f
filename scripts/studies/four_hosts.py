"""Study of four hosts on links of 50 Mbit/s: whether four workers train more examples a second than one alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from shaped_run import Setting, ShapedRun
from study_figures import chart_row, interval_words, milliseconds, ratio_chart
from tfscale.core.plots.chart import Chart

SPEED = 50e6
WORKERS = 4
STEPS = {("cifar-large", 1): 60, ("cifar-large", WORKERS): 16, ("cifar-small", 1): 60, ("cifar-small", WORKERS): 40}
"""Steps of each run, by program and workers."""
PROGRAMS = ("cifar-large", "cifar-small")


def name_of(program: str, workers: int) -> str:
    return f"{program}, {workers} worker{'s' if workers > 1 else ''}"


def _setting(program: str, workers: int) -> Setting:
    strategy = "multi-worker" if workers > 1 else "one-device"
    words = [program, "--strategy", strategy, "--examples", "1024", "--steps", str(STEPS[program, workers])]
    speeds = dict.fromkeys(range(workers), SPEED)
    return Setting(name_of(program, workers), words, {"worker": workers}, range(workers), speeds)


SETTINGS = [_setting(program, workers) for program, workers in STEPS]
COLUMNS = (
    "program",
    "examples/s of 1",
    "of 4",
    "4 against 1",
    "a step of 1",
    "all-reduce of 4",
    "4 with cores of their own, against 1",
    "four win from",
)


def gain(lag: float, transfer: float) -> float:
    """Return the throughput of four workers as a multiple of one's, each of which computes as fast as the one."""
    return WORKERS * lag / (lag + transfer)


def break_even(lag: float, transfer: float) -> float:
    """Return the bits a second from which four workers train more than one: transfer shrinks as speed grows."""
    return SPEED * transfer / ((WORKERS - 1) * lag)


def rows(runs: Mapping[str, Sequence[ShapedRun]]) -> list[list[str]]:
    """Return a row for each program."""
    return [_row(program, runs[name_of(program, 1)], runs[name_of(program, WORKERS)]) for program in PROGRAMS]


def chart(runs: Mapping[str, Sequence[ShapedRun]]) -> Chart:
    """Return the chart of four workers' throughput against one's."""
    found = []
    for program in PROGRAMS:
        alone, together = runs[name_of(program, 1)], runs[name_of(program, WORKERS)]
        found.append(chart_row(f"{program}, measured", _measured(alone, together)))
        found.append(chart_row(f"{program}, cores of their own", _with_own_cores(alone, together)))
    return ratio_chart("Four workers on 50 Mbit/s against one worker alone", "more examples a second", found)


def _measured(alone: Sequence[ShapedRun], together: Sequence[ShapedRun]) -> list[float]:
    one, four = ([(run.examples or 0) / run.step for run in these] for these in (alone, together))
    return [many / few for few, many in zip(one, four, strict=True)]


def _with_own_cores(alone: Sequence[ShapedRun], together: Sequence[ShapedRun]) -> list[float]:
    return [gain(one.step, four.transfer or 0) for one, four in zip(alone, together, strict=True)]


def _row(program: str, alone: Sequence[ShapedRun], together: Sequence[ShapedRun]) -> list[str]:
    lag, transfer = (fmean(each) for each in ([run.step for run in alone], [run.transfer or 0 for run in together]))
    one, four = ([(run.examples or 0) / run.step for run in these] for these in (alone, together))
    return [
        program,
        f"{fmean(one):,.0f}",
        f"{fmean(four):,.0f}",
        interval_words(_measured(alone, together)),
        milliseconds(lag),
        milliseconds(transfer),
        interval_words(_with_own_cores(alone, together)),
        f"{break_even(lag, transfer) / 1e6:,.0f} Mbit/s",
    ]
