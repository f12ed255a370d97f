"""Seconds that a restart by tfscale adds to TensorFlow's own stop and start: two real workers, restarted both ways.

    scripts/bench_restarts              # seven pairs, some seven minutes on two quiet cores
    scripts/bench_restarts --pairs 1    # a short look
    scripts/bench_restarts --agreement  # both by tfscale: without a spare, and with one, where three agents agree

By hand: both workers are killed, and when both have gone, both are started again, without agents and without a probe.
Killed, because workers of stock TensorFlow do not end at SIGTERM (trainer/compat/sigterm.py): no stop is shorter. By
tfscale: `tfscale-console restart worker:1`, whose order the lead's agent carries out. Pairs of both take turns, A B B
A, because the pace of a machine changes. *Stop* is from the signal or the order until both have gone, *start* from the
start until the first step that both have made, *between* what is left. *CPU* is what a worker has used up to its first
step: it tells what the probe adds to a start also where other programs keep the cores busy, and time does not. The
console's own start is apart: a console that is open, an agent that restarts unasked and a script have none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from statistics import mean, median

from local_cluster import ENVIRONMENT, end, run_files, start_agent, write_cluster
from loopback import free_addresses

WORKERS = 2
PATIENCE = 600.0
"""Seconds until a start must have led to a first step, on a machine that may have other things to do."""
TRAINED = 2.0
"""Seconds of training before a restart."""
PROGRAM = Path(__file__).with_name("restarted_program.py")
STAGE = re.compile(r"^(\S+Z) INFO worker:0 restart to generation \d+: (\w+) worker", re.MULTILINE)
"""Line of the lead's agent about a stage of the restart; the last of a stage is that of the slowest task."""
HEAD = """\
| restart | stop | between | start | in all | CPU of the start |
| --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True)
class Restart:
    """One restart, in seconds."""

    stop: float
    between: float
    start: float
    cpu: float
    """CPU of the start, the mean of the workers."""

    @property
    def total(self) -> float:
        return self.stop + self.between + self.start

    def row(self, name: str) -> str:
        parts = (self.stop, self.between, self.start, self.total, self.cpu)
        return f"| {name} | {' | '.join(f'{seconds:.2f} s' for seconds in parts)} |"


def by_hand(folder: Path) -> Restart:
    addresses = [*free_addresses(WORKERS)]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))

        def start() -> list[subprocess.Popen[bytes]]:
            started = []
            for index in range(WORKERS):
                task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                environment = os.environ | ENVIRONMENT | {"TF_CONFIG": json.dumps(task)}
                command = [sys.executable, PROGRAM, folder]
                process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
                started.append(stack.enter_context(process))
                stack.callback(process.kill)
            return started

        before = start()
        first_step(folder, 1, before)
        time.sleep(TRAINED)
        asked = time.time()
        for process in before:
            process.kill()
        for process in before:
            process.wait()
        gone = time.time()
        at, cpu = first_step(folder, 2, start())
        return Restart(gone - asked, 0.0, at - gone, cpu)


def by_tfscale(folder: Path, spare: str = "") -> tuple[Restart, float]:
    """Return the restart, and the seconds that the console took until its order was there.

    With the address of a spare's agent there is one, and a majority of three agents agrees on the restart.
    """
    cluster = write_cluster(folder, WORKERS)
    if spare:
        _add_spare(cluster, spare)
    command = [sys.executable, PROGRAM, folder]
    with contextlib.ExitStack() as stack:
        said = stack.enter_context((folder / "agents.log").open("w+"))
        agents = [start_agent(folder, cluster, index, command, said=said.fileno()) for index in range(WORKERS)]
        if spare:
            agents.append(start_agent(folder, cluster, 0, command, said=said.fileno(), spare=spare))
        stack.callback(end, agents)
        first_step(folder, 1, agents)
        time.sleep(TRAINED)
        order = [sys.executable, "-m", "tfscale.console.cli", "restart", "worker:1", "--yes", "--cluster", cluster]
        called = time.time()
        subprocess.run(order, capture_output=True, check=True, timeout=120)
        orders = [json.loads(line) for line in (run_files(folder) / "worker-0.audit.jsonl").read_text().splitlines()]
        asked = next(order["at"] for order in orders if order["what"] == "Restart" and order["result"] == "asked")
        times: dict[str, float] = {}
        said.seek(0)
        for told, stage in STAGE.findall(said.read()):
            times[stage] = datetime.fromisoformat(told).timestamp()
        stopped, started = times["stopped"], times["running"]
        at, cpu = first_step(folder, 2, agents)
        return Restart(stopped - asked, started - stopped, at - started, cpu), asked - called


def _add_spare(cluster: Path, spare: str) -> None:
    """Give each agent a host of its own, since one a host votes, and add a spare."""
    text = cluster.read_text()
    hosts = iter(["127.0.0.2", "127.0.0.3"] * 2)
    moved = re.sub(r"127\.0\.0\.1", lambda _: next(hosts), text)
    cluster.write_text(f'{moved}\n[spares]\nagents = ["{spare}"]\n')


def first_step(folder: Path, starts: int, processes: Sequence[subprocess.Popen[bytes]]) -> tuple[float, float]:
    """Wait until every worker has made its first step after so many starts; return when, and the mean of their CPU.

    Raises SystemExit when one of the processes ends instead.
    """

    def steps() -> Iterator[list[Path]]:
        for index in range(WORKERS):
            yield [path for path in folder.glob(f"worker-{index}.*") if path.suffix[1:].isdigit()]

    until = time.monotonic() + PATIENCE
    while not all(len(each) == starts for each in steps()):
        if time.monotonic() > until or any(process.poll() is not None for process in processes):
            raise SystemExit(f"bench_restarts: start {starts} led to no first step: {last_words(folder)}")
        time.sleep(0.1)
    newest = [max(tuple(map(float, path.read_text().split())) for path in each) for each in steps()]
    return max(at for at, _ in newest), mean(cpu for _, cpu in newest)


def last_words(folder: Path) -> str:
    return " | ".join(line for log in folder.rglob("*log") for line in log.read_text().splitlines()[-2:])


def middle(values: Sequence[Restart]) -> Restart:
    return Restart(*(median(part) for part in zip(*map(astuple, values), strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, metavar="N")
    parser.add_argument("--agreement", action="store_true", help="without and with a spare, in the place of by hand")
    flags = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}\n")
    print(HEAD, flush=True)
    first, second = ("without a spare", "with a spare") if flags.agreement else ("by hand", "by tfscale")
    seen: dict[str, list[Restart]] = {first: [], second: []}
    orders: list[float] = []

    def measure(name: str, folder: Path) -> None:
        if name == "by hand":
            restart = by_hand(folder)
        else:
            spare = next(free_addresses(1)).replace("127.0.0.1", "127.0.0.4")
            restart, order = by_tfscale(folder, spare if name == "with a spare" else "")
            orders.append(order)
        seen[name].append(restart)
        print(restart.row(name), flush=True)

    for number in range(flags.pairs):
        for name in (first, second) if number % 2 == 0 else (second, first):
            with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as folder:
                measure(name, Path(folder))
    print(*(middle(restarts).row(f"**{name}, median**") for name, restarts in seen.items()), sep="\n")
    pairs = list(zip(seen[first], seen[second], strict=True))
    added = sorted(ours.total - theirs.total for theirs, ours in pairs)
    outside = sorted(ours.stop + ours.between - theirs.stop - theirs.between for theirs, ours in pairs)
    cpu = sorted(ours.cpu - theirs.cpu for theirs, ours in pairs)
    print(
        f"\nAdded: {median(added):+.2f} s, median of {len(added)} pairs ({added[0]:+.2f} to {added[-1]:+.2f});"
        f" before the start {median(outside):+.2f} s ({outside[0]:+.2f} to {outside[-1]:+.2f});"
        f" CPU of the start {median(cpu):+.2f} s ({cpu[0]:+.2f} to {cpu[-1]:+.2f})."
        f"\nThe console's own start, before its order is there: {median(orders):.2f} s."
    )


if __name__ == "__main__":
    main()
