"""Cost of an agent, its shim, glances and node_exporter on this machine: CPU and memory, in one run.

    scripts/bench_agents                            # eight rounds, eleven minutes
    scripts/bench_agents --tensorflow               # and the agents of two workers that TensorFlow trains
    scripts/bench_agents --rounds 1 --seconds 10    # a short look
    scripts/bench_agents --metrics                  # only an agent whose page is read each second, beside one without
    scripts/bench_agents --hosts 1000 --rounds 5    # only the start of the lead's agent of so many hosts

In each round nobody watches the agent, then one console does, then three. Its program tells it of 100 steps a second,
and glances and node_exporter read the host once a second all the time. CPU is the median of the rounds, with the least
and the most of them; memory is the most, because an agent keeps the frames of the last ten minutes. Ends with 3 when an
agent takes more than its budget: 1 % of a core, and 64 MB of resident memory.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import lead_start
import psutil
from local_cluster import end, running, wait_until, write_cluster
from loopback import free_addresses
from peers import NOT_THERE, peers
from tfscale.core.settings.exit_status import ExitStatus

MOST_CPU, MOST_MEMORY = 0.01, 64e6
CONSOLES = {"agent, nobody watches": 0, "agent, one console": 1, "agent, three consoles": 3}
SETTLED = 3
"""Lines that a console has written when the agent has sent it what it missed."""
PAUSE = 2.0
"""Seconds after consoles have come or gone that are not measured."""
PROGRAM = Path(__file__).with_name("reporting_program.py")
TRAINING = Path(__file__).parents[3] / "tests/e2e/programs/endless.py"
HEAD = """\
| process | CPU of a core | resident | proportional | unique |
| --- | --- | --- | --- | --- |"""


@dataclass
class Cost:
    """Measurements of one process, one a round; memory in bytes."""

    cpu: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    proportional: list[int] = field(default_factory=list)
    unique: list[int] = field(default_factory=list)

    def row(self, name: str) -> str:
        cpu = f"{median(self.cpu):.2%} ({min(self.cpu):.2%} to {max(self.cpu):.2%})"
        memory = [f"{max(values) / 1e6:.1f} MB" for values in (self.resident, self.proportional, self.unique)]
        return f"| {name} | {cpu} | {' | '.join(memory)} |"


def measure(processes: dict[str, psutil.Process], seconds: float, costs: dict[str, Cost]) -> None:
    """Add one window of each process to its costs."""
    before, begin = {name: _cpu(process) for name, process in processes.items()}, time.perf_counter()
    time.sleep(seconds)
    after, wall = {name: _cpu(process) for name, process in processes.items()}, time.perf_counter() - begin
    for name, process in processes.items():
        memory, cost = process.memory_full_info(), costs[name]
        cost.cpu.append((after[name] - before[name]) / wall)
        cost.resident.append(memory.rss)
        cost.proportional.append(memory.pss)
        cost.unique.append(memory.uss)


def _cpu(process: psutil.Process) -> float:
    """Return seconds, without those of children."""
    times = process.cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def consoles(number: int, cluster: Path) -> Iterator[None]:
    """Watch the cluster with so many consoles until the block ends, which begins when each has had frames."""
    with contextlib.ExitStack() as stack:
        said = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(number)]
        command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", str(cluster), "--headless"]
        started = [subprocess.Popen(command, stdout=file) for file in said]
        stack.callback(end, started)
        wait_until(lambda: all(Path(file.name).read_bytes().count(b"\n") > SETTLED for file in said))
        time.sleep(PAUSE)
        yield


def shim_of(agent: psutil.Process) -> psutil.Process:
    return next(child for child in agent.children() if "shim" in " ".join(child.cmdline()))


def with_reports(folder: Path, rounds: int, seconds: float, others: dict[str, psutil.Process]) -> dict[str, Cost]:
    """Measure the agent of a program that reports steps, by how many consoles watch."""
    costs = {name: Cost() for name in (*CONSOLES, "its shim", *others)}
    cluster = write_cluster(folder, 1)
    with running(folder, cluster, 1, [sys.executable, PROGRAM], {}) as agents:
        agent = psutil.Process(agents[0].pid)
        wait_until(lambda: len(agent.children(recursive=True)) == 2)
        for _ in range(rounds):
            for name, number in CONSOLES.items():
                with consoles(number, cluster):
                    measure({name: agent, "its shim": shim_of(agent), **others}, seconds, costs)
    return costs


@contextlib.contextmanager
def reading(address: str) -> Iterator[None]:
    """Read the page of an agent once a second as Prometheus does, until the block ends."""
    over = threading.Event()
    connection = http.client.HTTPConnection(address, timeout=10)
    wanted = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}

    def read() -> None:
        while not over.wait(1.0):
            connection.request("GET", "/metrics", headers=wanted)
            connection.getresponse().read()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def with_page(folder: Path, rounds: int, seconds: float) -> dict[str, Cost]:
    """Measure two agents of programs that report steps, of which one has a page that is read each second.

    They take each window together, so that the machine is as busy for both.
    """
    names = ("agent, no page", "agent, its page read each second")
    costs = {name: Cost() for name in names}
    (address,) = free_addresses(1)
    with contextlib.ExitStack() as stack:
        processes = {}
        for name, variables in zip(names, ({}, {"TFSCALE_METRICS": address}), strict=True):
            (own := folder / name).mkdir()
            command = [sys.executable, PROGRAM]
            agents = stack.enter_context(running(own, write_cluster(own, 1), 1, command, variables))
            processes[name] = agent = psutil.Process(agents[0].pid)
            wait_until(lambda agent=agent: len(agent.children(recursive=True)) == 2)  # type: ignore[misc]
        stack.enter_context(reading(address))
        for _ in range(rounds):
            measure(processes, seconds, costs)
    return costs


def with_tensorflow(folder: Path, rounds: int, seconds: float) -> dict[str, Cost]:
    """Measure both agents of two workers that TensorFlow trains, which one console watches."""
    costs = {f"agent of TensorFlow's worker:{index}": Cost() for index in range(2)}
    cluster = write_cluster(folder, 2)
    with running(folder, cluster, 2, [sys.executable, TRAINING, folder], {}) as agents, consoles(1, cluster):
        wait_until(lambda: any((folder / "worker:0").glob("*")))
        processes = {name: psutil.Process(agent.pid) for name, agent in zip(costs, agents, strict=True)}
        for _ in range(rounds):
            measure(processes, seconds, costs)
    return costs


def told(costs: dict[str, Cost]) -> dict[str, Cost]:
    """Print a row of each process, and return the costs."""
    print(*(cost.row(process) for process, cost in costs.items()), sep="\n", flush=True)
    return costs


def judge(costs: dict[str, Cost]) -> list[str]:
    """List the budgets that an agent has missed."""
    missed = []
    for name, cost in costs.items():
        if name.startswith("agent") and median(cost.cpu) > MOST_CPU:
            missed.append(f"{name}: {median(cost.cpu):.2%} of a core is above {MOST_CPU:.0%}")
        if name.startswith("agent") and max(cost.resident) > MOST_MEMORY:
            missed.append(f"{name}: {max(cost.resident) / 1e6:.1f} MB is above {MOST_MEMORY / 1e6:.0f} MB")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, metavar="N")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each window (20)")
    parser.add_argument("--tensorflow", action="store_true", help="two workers that TensorFlow trains, too")
    parser.add_argument("--metrics", action="store_true", help="only what a page for Prometheus adds to an agent")
    parser.add_argument("--hosts", type=int, metavar="N", help="only the start of the lead's agent of so many hosts")
    flags = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}\n")
    if flags.hosts:
        with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as name:
            lead_start.measure(Path(name), flags.hosts, flags.rounds)
        return 0
    if flags.metrics:
        with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as name:
            print(HEAD, flush=True)
            return told_of(told(with_page(Path(name), flags.rounds, flags.seconds)))
    with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as name, peers(folder := Path(name)) as running_peers:
        others = {peer: psutil.Process(each.pid) for peer, each in running_peers.items() if each is not None}
        print(HEAD, flush=True)
        costs = told(with_reports(folder, flags.rounds, flags.seconds, others))
        for peer in running_peers.keys() - others:
            print(f"| {peer} | {NOT_THERE} | | | |")
        if flags.tensorflow:
            (folder / "tensorflow").mkdir()
            costs |= told(with_tensorflow(folder / "tensorflow", flags.rounds, flags.seconds))
    return told_of(costs)


def told_of(costs: dict[str, Cost]) -> int:
    """Print which budgets were missed, and return the exit status."""
    missed = judge(costs)
    for problem in missed:
        print(f"bench_agents: {problem}", file=sys.stderr)
    return ExitStatus.UNHEALTHY if missed else ExitStatus.WELL


if __name__ == "__main__":
    sys.exit(main())
