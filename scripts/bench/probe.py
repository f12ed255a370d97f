"""Cost of the probe: steps with and without it, judged by a budget, in 20 minutes.

    .venv/bin/python scripts/bench/probe.py                      # the budget; ends with 0, 1 or 3
    .venv/bin/python scripts/bench/probe.py --against ../before  # beside another checkout, in twice the time
    .venv/bin/python scripts/bench/probe.py --peers              # the profiler and TensorBoard too, in 30 minutes more

Real agents start real workers on loopback, one device or two of MultiWorkerMirroredStrategy with a core each, and a
console streams all frames. scripts/bench/probe_steps.py says how steps are compared. Each case is measured by two
processes, or by four with --against, which take turns; a checkout runs in its own .venv.

Exit status: 0 when every budget is kept, which is when all of its 95 % interval is; 1 when one is missed, which is when
all of the interval is above it; 3 when none is missed and one is not decided; 2 when something could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from local_cluster import running, write_cluster  # noqa: E402
from tfscale.core.moments import READ  # noqa: E402

STEPS, PEERS = (Path(__file__).with_name(name) for name in ("probe_steps.py", "probe_peers.py"))
ROUNDS = 2
"""Processes of each case and checkout: what is peculiar to one process is not taken for the probe's."""
THREADS_BUDGET = 1.0
"""CPU of the probe's threads, milliseconds a second."""
STATUS = {"kept": 0, "missed": 1, "not decided": 3}


class Case(NamedTuple):
    """Steps that the budget is about."""

    workers: int
    step: str
    budget: float
    """Microseconds added to a step."""

    def __str__(self) -> str:
        return f"{'one device' if self.workers == 1 else 'two workers'}, {self.step}"


CASES = (Case(1, "0.5 ms", 10), Case(1, "2 ms", 10), Case(1, "20 ms", 10), Case(2, "20 ms", 0.0015 * 20_000))


@dataclass(frozen=True)
class Estimate:
    """A value, and as many of it as the bootstrap drew."""

    value: float
    drawn: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds within which the value is with 95 %."""
        low, high = np.quantile(self.drawn, (0.025, 0.975))
        return float(low), float(high)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.value + other.value, self.drawn + other.drawn)

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self.drawn - other.drawn)

    def times(self, factor: float) -> Estimate:
        return Estimate(self.value * factor, self.drawn * factor)

    def verdict(self, budget: float) -> str:
        low, high = self.interval
        return "kept" if high <= budget else "missed" if low > budget else "not decided"

    def text(self, digits: int = 1) -> str:
        low, high = self.interval
        return f"{self.value:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def median(values: Sequence[float], draws: int = 4000) -> Estimate:
    return Estimate(float(np.median(values)), np.median(_samples(values, draws), axis=1))


def middle_mean(values: Sequence[float], draws: int = 4000) -> Estimate:
    """Estimate the mean of the middle 80 %: bursts of a neighbour, of milliseconds, are in the rest."""

    def middle(rows: np.ndarray) -> np.ndarray:
        cut = rows.shape[1] // 10
        return np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut].mean(axis=1)

    return Estimate(float(middle(np.array([values]))[0]), middle(_samples(values, draws)))


def _samples(values: Sequence[float], draws: int) -> np.ndarray:
    return np.random.default_rng(0).choice(np.array(values), (draws, len(values)))


class Cost:
    """Estimates of one case in one checkout, from what its processes measured."""

    def __init__(self, case: Case, processes: Sequence[dict[str, Any]]) -> None:
        def pooled(name: str) -> list[float]:
            return [value for process in processes for value in process[name]]

        self.case = case
        self.usual = float(np.mean([process["usual"] for process in processes]))
        self.stamps = median(pooled("stamps"))
        # One read a second: spread over the steps of that second.
        self.reads, self.frames = (middle_mean(pooled(name)).times(self.usual / 1e6) for name in ("reads", "frames"))
        self.added = self.stamps + self.reads
        self.threads = middle_mean(pooled("threads"))
        self.agent = middle_mean(pooled("agents"))

    def judged(self) -> Iterator[tuple[str, str]]:
        """Yield one line for each budget, and its verdict."""
        for name, unit, estimate, budget in (
            ("added a step", "us", self.added, self.case.budget),
            ("CPU of its threads a second", "ms", self.threads, THREADS_BUDGET),
        ):
            verdict = estimate.verdict(budget)
            yield f"{self.case}: {name}: {estimate.text()} {unit}, budget {budget:g} {unit}: {verdict}", verdict

    def row(self, checkout: str) -> str:
        cells = [checkout, str(self.case), f"{self.usual:.0f}"]
        cells += [each.text() for each in (self.added, self.stamps, self.reads, self.frames)]
        cells += [each.text(2) for each in (self.threads, self.agent)]
        return f"| {' | '.join(cells)} |"


HEAD = """\
| checkout | case | step, us | added a step, us | by stamps | by reads | by agents | threads, ms/s | agent, ms/s |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="a checkout with an environment of its own")
    parser.add_argument("--only", choices=[*map(str, CASES)], help="one case")
    parser.add_argument("--peers", action="store_true", help="measure TensorFlow's profiler and TensorBoard too")
    parser.add_argument("--quick", action="store_true", help="few pairs, to see that it works")
    flags = parser.parse_args()
    checkouts = [*([flags.against.absolute()] if flags.against else []), ROOT]
    cases = [case for case in CASES if flags.only in (None, str(case))]
    print(HEAD, flush=True)
    costs = {case: cost_of(case, checkouts, ["--quick"] * flags.quick) for case in cases}
    judged = [each for case in cases for each in costs[case][ROOT].judged()]
    print("", *(line for line, _ in judged), sep="\n")
    for case in cases if flags.against else ():
        print(f"{case}: {compared(costs[case][ROOT], costs[case][checkouts[0]])}")
    for case in cases if flags.peers else ():
        print_peers(case, ["--quick"] * flags.quick)
    verdicts = {verdict for _, verdict in judged}
    return next(STATUS[verdict] for verdict in ("missed", "not decided", "kept") if verdict in verdicts)


def cost_of(case: Case, checkouts: Sequence[Path], options: Sequence[str]) -> dict[Path, Cost]:
    """Measure a case in each checkout, in turn; print its rows."""
    processes: dict[Path, list[dict[str, Any]]] = {checkout: [] for checkout in checkouts}
    for number in range(ROUNDS):
        for checkout in checkouts[:: 1 if number % 2 == 0 else -1]:
            processes[checkout].append(measured(case, checkout, [STEPS, case.step, str(READ), *options]))
    costs = {checkout: Cost(case, found) for checkout, found in processes.items()}
    for checkout, cost in costs.items():
        print(cost.row(checkout.name), flush=True)
    return costs


def compared(after: Cost, before: Cost) -> str:
    """Describe by how much this checkout takes more than the other one."""
    threads, agent = after.threads - before.threads, after.agent - before.agent
    added = f"{(after.added - before.added).text()} us a step"
    return f"beyond the other checkout: {added}, threads {threads.text(2)} ms/s, agent {agent.text(2)} ms/s"


def print_peers(case: Case, options: Sequence[str]) -> None:
    for name, added in measured(case, ROOT, [PEERS, case.step, *options], may_crash=True).items():
        print(f"{case}: {name}: {median(added).text()} us added a step", flush=True)


def measured(case: Case, checkout: Path, program: Sequence[str | Path], may_crash: bool = False) -> dict[str, Any]:
    """Run the program under the agents of a checkout; return what it wrote, and the CPU that its agents used."""
    python = checkout / ".venv/bin/python"
    if not python.exists():
        sys.exit(f"{python} is not there: run ./scripts/environment dev in that checkout")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out, cluster = folder / "measured.json", write_cluster(folder, case.workers)
        command = [python, program[0], out, *program[1:]]
        variables = {"TF_USE_LEGACY_KERAS": "", "PYTHONFAULTHANDLER": "1"}
        # On one machine workers, and their agents, would take each other's core now and then, which hosts do not.
        cores = [("taskset", "-c", str(core)) for core in sorted(os.sched_getaffinity(0))]
        before = cores if case.workers > 1 else [()]
        with (
            running(folder, cluster, case.workers, command, variables, before, python) as agents,
            streaming(python, cluster),
            AgentsCpu([agent.pid for agent in agents]) as cpu,
        ):
            wait_for(folder, agents, may_crash)
        found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        return found | {"agents": cpu.each_second(found["begin"], found["end"])} if "begin" in found else found


def wait_for(folder: Path, agents: Sequence[subprocess.Popen[bytes]], may_crash: bool) -> None:
    """Wait until the program has ended; leave with status 2 where it failed."""
    while (ended := end_of_log(folder)) is None:
        if any(agent.poll() is not None for agent in agents):
            print("an agent ended early; its own words are above", file=sys.stderr)
            sys.exit(2)
        time.sleep(1)
    if "ended with exit code 0" not in ended and not may_crash:
        print(f"the steps failed:\n{ended}", file=sys.stderr)
        sys.exit(2)
    if "ended with exit code 0" not in ended:
        print("TensorFlow's profiler crashed its program: its line is missing", file=sys.stderr)


def end_of_log(folder: Path) -> str | None:
    """Return the end of the log of a task that has ended."""
    for log in (folder / "cluster").glob("*.log"):
        if "ended with" in (text := log.read_text()):
            return text.partition("Extension modules")[0][-9000:]
    return None


@contextlib.contextmanager
def streaming(python: Path, cluster: Path) -> Iterator[None]:
    """Let a console stream everything for as long as the block lasts."""
    command = [python, "-m", "tfscale.console.cli", "--cluster", cluster, "--headless", "--out", os.devnull]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as console:
        try:
            yield
        finally:
            console.terminate()


class AgentsCpu:
    """CPU of processes, read once a second for as long as the block lasts."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._seen: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> AgentsCpu:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def each_second(self, begin: float, end: float) -> list[float]:
        """Return the milliseconds a second of one process, one value a second between two Unix times."""
        at, used = np.array([each for each in self._seen if begin <= each[0] <= end]).T
        return (1e3 * np.diff(used) / np.diff(at) / len(self._pids)).tolist()

    def _watch(self) -> None:
        while not self._stop.wait(1 - (time.time() - 0.5) % 1):
            with contextlib.suppress(FileNotFoundError):
                self._seen.append((time.time(), sum(map(_cpu, self._pids))))


def _cpu(pid: int) -> float:
    """Return the seconds of CPU that all threads of a process have used."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


if __name__ == "__main__":
    sys.exit(main())
