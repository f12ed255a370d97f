"""Cost of the probe: steps with and without it, judged by a budget, in 20 minutes.

    .venv/bin/python scripts/bench/probe.py                      # the budget; ends with 0, 3 or 5
    .venv/bin/python scripts/bench/probe.py --against ../before  # beside another checkout, in twice the time
    .venv/bin/python scripts/bench/probe.py --peers              # the profiler and TensorBoard too, in 30 minutes more

Real agents start real workers on loopback, one device or two of MultiWorkerMirroredStrategy with a core each, and a
console streams all frames. scripts/bench/probe_steps.py says how steps are compared. Each case is measured by two
processes, or by four with --against, which take turns; a checkout runs in its own .venv.

Exit status: 0 when every budget is kept, which is when all of its 95 % interval is; 3 when one is missed, which is when
all of the interval is above it; 5 when none is missed and one is not decided; 1 when something could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/harness"))

from local_cluster import running, write_cluster  # noqa: E402
from tfscale.core.report_schedule import READ_OFFSET  # noqa: E402
from tfscale.core.settings.exit_status import ExitStatus  # noqa: E402

STEPS, PEERS = (Path(__file__).with_name(name) for name in ("probe_steps.py", "probe_peers.py"))
ROUNDS = 2
"""Processes of each case and checkout: what is peculiar to one process is not taken for the probe's."""
THREADS_BUDGET = 1.0
"""CPU of the probe's threads, milliseconds a second."""
ONCE_A_SECOND = ("reads", "frames", "threads", "agents")
"""Measurements with one value a second."""
STATUS = {"kept": ExitStatus.WELL, "missed": ExitStatus.UNHEALTHY, "not decided": ExitStatus.NOT_YET}


class Case(NamedTuple):
    """Steps that the budget is about."""

    workers: int
    step: str
    budget: float
    """Microseconds added to a step."""

    def __str__(self) -> str:
        return f"{'one device' if self.workers == 1 else 'two workers'}, {self.step}"


CASES = (Case(1, "0.5 ms", 10), Case(1, "2 ms", 10), Case(1, "20 ms", 10), Case(2, "20 ms", 0.0015 * 20_000))


Estimate = np.ndarray
"""A value, and after it the same of 4,000 resamplings of the data: so estimates can be added and scaled as numbers."""


def resampled(values: Sequence[float]) -> np.ndarray:
    """Return the values as a row, and below it rows drawn from them with replacement (bootstrap)."""
    return np.vstack([values, np.random.default_rng(0).choice(np.array(values), (4000, len(values)))])


def median(values: Sequence[float]) -> Estimate:
    return np.median(resampled(values), axis=1)


def middle_mean(values: Sequence[float]) -> Estimate:
    """Estimate the mean of the middle 80 %: a neighbour's bursts, of milliseconds, are in the rest."""
    cut = len(values) // 10
    return np.sort(resampled(values), axis=1)[:, cut : len(values) - cut].mean(axis=1)


def interval(estimate: Estimate) -> np.ndarray:
    """Return the bounds within which the value is with 95 %."""
    return np.quantile(estimate[1:], (0.025, 0.975))


def formatted(estimate: Estimate, digits: int = 1) -> str:
    low, high = interval(estimate)
    return f"{estimate[0]:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def verdict_on(estimate: Estimate, budget: float) -> str:
    low, high = interval(estimate)
    return "kept" if high <= budget else "missed" if low > budget else "not decided"


class Cost:
    """Estimates of one case in one checkout, from what its processes measured."""

    def __init__(self, case: Case, processes: Sequence[dict[str, Any]]) -> None:
        def pooled(name: str) -> list[float]:
            return [value for process in processes for value in process[name]]

        self.case = case
        self.step = float(np.mean([process["usual"] for process in processes]))
        self.stamps = median(pooled("stamps"))
        self.reads, self.frames, self.threads, self.agent = (middle_mean(pooled(name)) for name in ONCE_A_SECOND)
        # What is taken once a second is spread over the steps of that second.
        self.reads, self.frames = self.reads * self.step / 1e6, self.frames * self.step / 1e6
        self.added = self.stamps + self.reads

    def judged(self) -> Iterator[tuple[str, str]]:
        """Yield one line for each budget, and its verdict."""
        for name, unit, estimate, budget in (
            ("added to a step", "us", self.added, self.case.budget),
            ("CPU of the probe's threads a second", "ms", self.threads, THREADS_BUDGET),
        ):
            verdict = verdict_on(estimate, budget)
            yield f"{self.case}: {name}: {formatted(estimate)} {unit}, budget {budget:g} {unit}: {verdict}", verdict

    def row(self, checkout: str) -> str:
        cells = [checkout, str(self.case), f"{self.step:.0f}"]
        cells += map(formatted, (self.added, self.stamps, self.reads, self.frames))
        return f"| {' | '.join([*cells, formatted(self.threads, 2), formatted(self.agent, 2)])} |"

    def beyond(self, other: Cost) -> str:
        threads, agent = formatted(self.threads - other.threads, 2), formatted(self.agent - other.agent, 2)
        return f"{formatted(self.added - other.added)} us a step, threads {threads} ms/s, agent {agent} ms/s"


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
    # Leave by an exception, so that agents and console are ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitStatus.NOTHING))
    checkouts = [*([flags.against.absolute()] if flags.against else []), ROOT]
    cases = [case for case in CASES if flags.only in (None, str(case))]
    print(HEAD, flush=True)
    costs = {case: cost_of(case, checkouts, ["--quick"] * flags.quick) for case in cases}
    judged = [sample for case in cases for sample in costs[case][ROOT].judged()]
    print("", *(line for line, _ in judged), sep="\n")
    for case in cases if flags.against else ():
        print(f"{case}: beyond the other checkout: {costs[case][ROOT].beyond(costs[case][checkouts[0]])}")
    for case in cases if flags.peers else ():
        print_peers(case, ["--quick"] * flags.quick)
    verdicts = {verdict for _, verdict in judged}
    return next(STATUS[verdict] for verdict in ("missed", "not decided", "kept") if verdict in verdicts)


def cost_of(case: Case, checkouts: Sequence[Path], options: Sequence[str]) -> dict[Path, Cost]:
    """Measure a case in each checkout, in turn; print its rows."""
    processes: dict[Path, list[dict[str, Any]]] = {checkout: [] for checkout in checkouts}
    for number in range(ROUNDS):
        for checkout in checkouts[:: 1 if number % 2 == 0 else -1]:
            processes[checkout].append(measured(case, checkout, [STEPS, case.step, str(READ_OFFSET), *options]))
    costs = {checkout: Cost(case, found) for checkout, found in processes.items()}
    for checkout, cost in costs.items():
        print(cost.row(checkout.name), flush=True)
    return costs


def print_peers(case: Case, options: Sequence[str]) -> None:
    for name, added in measured(case, ROOT, [PEERS, case.step, *options], may_crash=True).items():
        print(f"{case}: {name}: {formatted(median(added))} us added a step", flush=True)


def measured(case: Case, checkout: Path, program: Sequence[str | Path], may_crash: bool = False) -> dict[str, Any]:
    """Run the program under the agents of a checkout; return what it wrote, and the CPU of the first agent."""
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
            running(folder, cluster, case.workers, command, variables, before=before, python=python) as agents,
            streaming(python, cluster),
            sampling([agents[0].pid]) as samples,
        ):
            wait_for(folder, agents, may_crash)
        found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        return found | {"agents": each_second(samples, found["begin"], found["end"])} if "begin" in found else found


def wait_for(folder: Path, agents: Sequence[subprocess.Popen[bytes]], may_crash: bool) -> None:
    """Wait until all tasks have ended, or one has failed; leave with status 1 where that must not be."""
    while True:
        time.sleep(1)
        logs = [log.read_text() for log in folder.glob("cluster-*/worker-?.log")]
        if failed := [log for log in logs if "ended with" in log and "ended with exit code 0" not in log]:
            print("a program crashed:", failed[0].partition("Extension modules")[0][-9000:], sep="\n", file=sys.stderr)
            if not may_crash:
                sys.exit(ExitStatus.NOTHING)
            return
        if logs and all("ended with" in log for log in logs):
            return
        if any(agent.poll() is not None for agent in agents):
            print("an agent ended early, for the reason above", file=sys.stderr)
            sys.exit(ExitStatus.NOTHING)


@contextlib.contextmanager
def streaming(python: Path, cluster: Path) -> Iterator[None]:
    """Let a console stream everything for as long as the block lasts."""
    command = [python, "-m", "tfscale.console.cli", "--cluster", cluster, "--headless", "--out", os.devnull]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as console:
        try:
            yield
        finally:
            console.terminate()


@contextlib.contextmanager
def sampling(pids: Sequence[int]) -> Iterator[list[tuple[float, float]]]:
    """Append once a second Unix time and CPU of these processes, in seconds, for as long as the block lasts."""
    samples: list[tuple[float, float]] = []
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(1 - (time.time() - 0.5) % 1):
            with contextlib.suppress(FileNotFoundError):
                samples.append((time.time(), sum(map(cpu_of, pids))))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that all threads of a process have used."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def each_second(samples: Sequence[tuple[float, float]], begin: float, end: float) -> list[float]:
    """Return the CPU between two Unix times, milliseconds a second, one value a second."""
    at, used = np.array([sample for sample in samples if begin <= sample[0] <= end]).T
    return (1e3 * np.diff(used) / np.diff(at)).tolist()


if __name__ == "__main__":
    sys.exit(main())
