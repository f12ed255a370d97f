"""Study of where variables are: in one place on one host, on 1, 2 and 4 parameter servers, or on each worker of a ring.

Two workers train `even_layers.py` on links of 200 Mbit/s. Workers of servers have links without a limit, but
in the row `workers' links too`: the formula is about servers' links, and two workers' carry no more than two servers'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from shaped_run import Setting, ShapedRun
from study_figures import chart_row, interval_words, milliseconds, ratio_chart
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.plots.chart import Chart

SPEED = 200e6
WORKERS, BATCH, STEPS = 2, 16, 60
"""Batch and steps of each worker's own; a step of a ring, or of replicas on one host, has the examples of both."""
BYTES = 4_721_664
SERVERS = (1, 2, 4)
CENTRAL, RING = "central storage, 1 host", "ring"
EXAMPLES = STEPS * BATCH
"""Examples of a run after which losses are compared."""
_PROGRAM = str(Path(__file__).with_name("even_layers.py"))
_CUSTOM = ["--loop", "custom", "--batch", str(BATCH)]


def name_of(servers: int, *, only_servers: bool = True) -> str:
    words = f"{servers} server{'s' if servers > 1 else ''}"
    return words if only_servers else f"{words}, workers' links too"


def _of_replicas(name: str, hosts: Sequence[int], *words: str) -> Setting:
    run = [_PROGRAM, *words, *_CUSTOM, "--steps", str(STEPS // WORKERS)]
    return Setting(name, run, {"worker": len(hosts)}, hosts, dict.fromkeys(hosts, SPEED))


def _of_servers(servers: int, *, only_servers: bool) -> Setting:
    run = [_PROGRAM, "--strategy", "parameter-server", *_CUSTOM, "--steps", str(STEPS)]
    roles = {"chief": 1, "worker": WORKERS, "ps": servers}
    first = 1 + WORKERS if only_servers else 1
    hosts = range(1 + WORKERS + servers)
    return Setting(name_of(servers, only_servers=only_servers), run, roles, hosts, dict.fromkeys(hosts[first:], SPEED))


SETTINGS = [
    _of_replicas(CENTRAL, [0], "--strategy", "central-storage", "--replicas", str(WORKERS)),
    _of_replicas(RING, range(WORKERS), "--strategy", "multi-worker"),
    *(_of_servers(servers, only_servers=True) for servers in SERVERS),
    _of_servers(SERVERS[-1], only_servers=False),
]
OF_SERVERS = {name_of(servers): servers for servers in SERVERS} | {
    name_of(SERVERS[-1], only_servers=False): SERVERS[-1]
}
"""Number of servers by the name of the setting."""
COLUMNS = (
    "variables",
    "16 examples of one worker",
    "all examples/s",
    "busiest link a step, each way",
    "of one server's",
    "formula",
    "against it",
    f"loss at {EXAMPLES:,} examples",
)


def server_step(servers: int, workers: int = WORKERS) -> float:
    """Return the seconds of a worker's step if the servers' links alone limit it: bytes x workers / (servers x speed).

    Pulled variables leave a server while other workers' gradients reach it, so that the bytes are those of one way.
    """
    return 8 * BYTES * workers / (servers * SPEED)


def rows(runs: Mapping[str, Sequence[ShapedRun]]) -> list[list[str]]:
    """Return a row for each setting."""
    whole = fmean(busiest(run, [1 + WORKERS]) for run in runs[name_of(1)])
    found = [_row(CENTRAL, runs[CENTRAL], None, None), _row(RING, runs[RING], _ring_step(), None)]
    for name, servers in OF_SERVERS.items():
        part = [busiest(run, range(1 + WORKERS, 1 + WORKERS + servers)) / whole for run in runs[name]]
        found.append(_row(name, runs[name], server_step(servers), part))
    return found


def chart(runs: Mapping[str, Sequence[ShapedRun]]) -> Chart:
    """Return the chart of steps against their formulas."""
    found = [chart_row(RING, [run.step / _ring_step() for run in runs[RING]])]
    for name, servers in OF_SERVERS.items():
        found.append(chart_row(name, [run.step * WORKERS / server_step(servers) for run in runs[name]]))
    return ratio_chart("A worker's step against bytes x workers / (servers x speed)", "above the formula", found, 15)


def _ring_step() -> float:
    return 8 * volume(BYTES, WORKERS) / SPEED


def busiest(run: ShapedRun, hosts: Sequence[int]) -> float:
    """Return the bytes that the busiest of these hosts sends or receives in a step."""
    return max(max(run.sent[host], run.received[host]) for host in hosts)


def loss_of(run: ShapedRun) -> float:
    """Return the mean loss of the last tenth of the steps: every run has had as many examples."""
    last = [loss for _, loss in run.losses][-len(run.losses) // 10 :]
    return fmean(last)


def _row(name: str, runs: Sequence[ShapedRun], ideal: float | None, part: Sequence[float] | None) -> list[str]:
    own = [run.step * WORKERS if part is not None else run.step for run in runs]
    rate = fmean(WORKERS * BATCH / step for step in own)
    losses = [loss_of(run) for run in runs]
    return [
        name,
        milliseconds(fmean(own)),
        f"{rate:,.0f}",
        f"{fmean(busiest(run, range(len(run.sent))) for run in runs) / 1e6:.2f} MB",
        f"{fmean(part):.1%}" if part else "-",
        milliseconds(ideal) if ideal else "-",
        interval_words([step / ideal for step in own]) if ideal else "-",
        f"{fmean(losses):.3f} ({min(losses):.3f} to {max(losses):.3f})",
    ]
