"""Study of the same four workers on one, two and four hosts, whose links have 100 Mbit/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from shaped_run import Setting, ShapedRun
from study_figures import chart_row, interval_words, milliseconds, ratio_chart
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.plots.chart import Chart

SPEED = 100e6
PLACES = {
    "1 host": (0, 0, 0, 0),
    "2 hosts, neighbours of the ring together": (0, 0, 1, 1),
    "2 hosts, neighbours of the ring apart": (0, 1, 0, 1),
    "4 hosts": (0, 1, 2, 3),
}
"""Host of each worker."""
WORDS = ["cifar-large", "--strategy", "multi-worker", "--batch", "1", "--examples", "256", "--steps", "20"]
SETTINGS = [
    Setting(name, WORDS, {"worker": len(hosts)}, hosts, dict.fromkeys(hosts, SPEED)) for name, hosts in PLACES.items()
]
COLUMNS = (
    "workers on",
    "step",
    "all-reduce",
    "busiest link a step",
    "its edges of the ring",
    "by the formula",
    "against it",
)


def edges(hosts: Sequence[int]) -> int:
    """Return how many edges of the ring 0, 1, 2, ... leave the host that most of them leave."""
    leaving = [host for host, after in zip(hosts, [*hosts[1:], hosts[0]], strict=True) if host != after]
    return max(map(leaving.count, leaving), default=0)


def formula(payload: float, hosts: Sequence[int]) -> float:
    """Return the seconds of the all-reduce: those of a ring, times the edges that share the busiest link."""
    return 8 * edges(hosts) * volume(payload, len(hosts)) / SPEED


def rows(runs: Mapping[str, Sequence[ShapedRun]]) -> list[list[str]]:
    """Return a row for each placement."""
    return [_row(name, hosts, runs[name]) for name, hosts in PLACES.items()]


def chart(runs: Mapping[str, Sequence[ShapedRun]]) -> Chart:
    """Return the chart of the steps of each placement against those on four hosts of the same round."""
    found = [
        chart_row(name, [run.step / four.step for run, four in zip(runs[name], runs["4 hosts"], strict=True)])
        for name in PLACES
        if name != "4 hosts"
    ]
    return ratio_chart("A step of four workers on fewer hosts, against four hosts", "longer than on 4 hosts", found)


def _row(name: str, hosts: Sequence[int], runs: Sequence[ShapedRun]) -> list[str]:
    ideal = formula(runs[0].payload or 0, hosts)
    return [
        name,
        milliseconds(fmean(run.step for run in runs)),
        milliseconds(fmean(run.transfer or 0 for run in runs)),
        f"{fmean(max(run.sent) for run in runs) / 1e6:.2f} MB",
        str(edges(hosts)),
        milliseconds(ideal) if ideal else "-",
        interval_words([(run.transfer or 0) / ideal for run in runs]) if ideal else "-",
    ]
