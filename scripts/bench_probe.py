#!/usr/bin/env python3
"""What does the probe cost a step? Compares steps with and without it, beside TensorFlow's profiler and TensorBoard.

    .venv/bin/python scripts/bench_probe.py
    .venv/bin/python scripts/bench_probe.py --workers 1 --steps "2 ms" "20 ms"

Real agents start real workers on loopback (one device, then two of MultiWorkerMirroredStrategy), and a console streams
all they tell. scripts/bench_probe_steps.py says how the steps are compared. Prints a table; exit 1 where a budget is
missed: at most 10 us added a step, known to 20, at most 0.1 % of a step of 20 ms, and less than both peers. --quick
makes few pairs and judges nothing. With --asleep steps of 20 and 100 ms sleep for most of that time, else they compute.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/e2e"))

from local_cluster import running, write_cluster

STEPS = Path(__file__).with_name("bench_probe_steps.py")
STEP_TIMES = ("0.5 ms", "2 ms", "20 ms", "100 ms")
"""What steps are meant to last."""
NAMES = {1: "one device", 2: "two workers"}
BUDGET = 10.0
"""Microseconds added to a step."""
SHARE = 0.001
"""Of a step of 20 ms."""
KNOWN_TO = 20.0
"""Microseconds beyond which a median says nothing about the budget."""
PEERS = ("TensorBoard", "profiler")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few pairs, no verdict")
    parser.add_argument("--asleep", action="store_true", help="long steps sleep")
    parser.add_argument(
        "--steps", nargs="+", choices=STEP_TIMES, default=STEP_TIMES, metavar="TIME", help="such as '2 ms'"
    )
    parser.add_argument("--workers", type=int, nargs="+", choices=(1, 2), default=(1, 2), metavar="N")
    flags = parser.parse_args()
    if importlib.util.find_spec("tensorboard") is None:
        raise SystemExit("TensorBoard, a peer, is not installed: run ./scripts/environment dev first")
    options = [*["--quick"] * flags.quick, *["--asleep"] * flags.asleep]
    missed = []
    print("|  | step | what | pairs | without | with | added a step | 95 % of that | its threads |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for workers, step in itertools.product(flags.workers, flags.steps):
        name, rows = NAMES[workers], []
        for row in measured(workers, [step, *options]):
            rows.append(row)
            print(line(name, step, row), flush=True)
        missed += [f"{name}, {step}: {problem}" for problem in judged(step, rows)]
    if flags.quick:
        return 0
    for problem in missed:
        print(f"missed: {problem}", file=sys.stderr)
    return 1 if missed else 0


def measured(workers: int, arguments: list[str]) -> Iterator[dict[str, Any]]:
    """The rows that the program of one cluster finds, as they come; without the profiler's where that crashes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out, cluster = folder / "rows.json", write_cluster(folder, workers)
        command = [sys.executable, STEPS, out, *arguments]
        variables = {"TF_USE_LEGACY_KERAS": "", "PYTHONFAULTHANDLER": "1"}
        # Workers, and their agents, would take each other's core now and then, by chance, which hosts do not.
        alone = [("taskset", "-c", str(core)) for core in sorted(os.sched_getaffinity(0))]
        before = alone if workers > 1 else [()]
        with running(folder, cluster, workers, command, variables, before) as agents, watching(cluster):
            yield from written(out, folder, agents)


def written(out: Path, folder: Path, agents: list[subprocess.Popen[bytes]]) -> Iterator[dict[str, Any]]:
    """The rows in a file that grows, until the program is done or has crashed."""
    told = 0
    while True:
        done, crashed = out.with_suffix(".done").exists(), crash(folder)
        rows = json.loads(out.read_text()) if out.exists() else []
        yield from rows[told:]
        told = len(rows)
        if done:
            return
        if crashed is not None:
            if "profiler_v2.py" not in crashed:
                raise SystemExit(f"the steps failed:\n{crashed}")
            print("TensorFlow's profiler crashed its program: its row is missing", file=sys.stderr)
            return
        if any(agent.poll() for agent in agents):
            raise SystemExit("an agent failed: run this with the Python of .venv, which ./scripts/environment makes")
        time.sleep(1)


def crash(folder: Path) -> str | None:
    """The end of the log of a task that has ended."""
    for log in (folder / "cluster").glob("*.log"):
        if "ended with" in (text := log.read_text()):
            return text.partition("Extension modules")[0][-9000:]
    return None


@contextlib.contextmanager
def watching(cluster: Path):
    """A console that streams everything, for as long as the block lasts."""
    command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", cluster, "--headless", "--out", os.devnull]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as console:
        try:
            yield
        finally:
            console.terminate()


def line(name: str, step: str, row: dict[str, Any]) -> str:
    # What is taken away at moments has no steps of its own, with and without.
    times = [f"{row[each]:.0f} us" if each in row else "" for each in ("without", "with")]
    interval = f"{row['low']:+.1f} to {row['high']:+.1f} us"
    threads = f"{row['threads']:.1f} us" if "threads" in row else ""
    cells = [name, step, row["what"], str(row["pairs"]), *times, f"{row['added']:+.1f} us", interval, threads]
    return f"| {' | '.join(cells)} |"


def judged(step: str, rows: list[dict[str, Any]]) -> list[str]:
    """The budgets that were missed by these steps, or of which they do not decide."""
    found = {row["what"]: row for row in rows}
    added, without = found["probe"]["added"], found["probe"]["without"]
    around = (found["probe"]["high"] - found["probe"]["low"]) / 2
    problems = []
    if added > BUDGET:
        problems.append(f"{added:.1f} us added a step, budget {BUDGET:.0f}")
    elif around > KNOWN_TO:
        problems.append(f"{added:.1f} us added a step, known to {around:.0f} only: not decided")
    if step == "20 ms" and added > SHARE * without:
        problems.append(f"{added / without:.2%} of the step, budget {SHARE:.1%}")
    return problems + [f"{peer} adds no more" for peer in PEERS if peer in found and added >= found[peer]["added"]]


if __name__ == "__main__":
    sys.exit(main())
