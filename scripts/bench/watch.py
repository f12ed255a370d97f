"""Cost of `tfscale-console watch` with many tasks, in turns with `--headless --record` on the same agents.

    .venv/bin/python scripts/bench/watch.py                          # 64 and 1,000 tasks
    .venv/bin/python scripts/bench/watch.py --tasks 64 --rounds 3

Prints CPU as a share of a core, and memory, of each process alone. The agents are those of scripts/bench/console.py:
100 steps and 8 GPUs of each task a second. Ends with 1 where the watch misses a budget, by the median of its rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil
from fake_agents import agents

BUDGETS = {64: (0.03, 400e6), 1000: (0.35, 400e6)}
"""Share of a core and bytes, by tasks."""


def measure(words: list[str], cluster: Path, warm_up: float, seconds: float) -> tuple[float, int]:
    """Return CPU as a share of a core over `seconds`, and memory in bytes at their end."""
    command = [sys.executable, "-m", "tfscale.console.cli", *words, "--cluster", str(cluster), "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        process = psutil.Process(running.pid)
        time.sleep(warm_up)
        before, begin = process.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, spent = process.cpu_times(), time.monotonic() - begin
        memory = process.memory_info().rss
        running.terminate()
    return (after.user + after.system - before.user - before.system) / spent, memory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[*BUDGETS], metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="S")
    flags = parser.parse_args()
    missed = []
    for tasks in flags.tasks:
        known: list[tuple[float, int]] = []
        with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as folder, agents(tasks, Path(folder)) as cluster:
            programs = {
                "watch": ["watch", "--runs", f"{folder}/runs"],
                "headless": ["--headless", "--only", "events", "--record", f"{folder}/headless"],
            }
            for each in range(flags.rounds):
                for name, words in programs.items():
                    own = [*words[:-1], f"{words[-1]}-{each}"]
                    cpu, memory = measure(own, cluster, flags.warm_up, flags.seconds)
                    print(f"{name:<10}{tasks:>6,}{cpu:>8.1%}{memory / 1e6:>8.0f} MB", flush=True)
                    known += [(cpu, memory)] if name == "watch" else []
        for limit, values in zip(BUDGETS.get(tasks, ()), zip(*known, strict=True), strict=False):
            if (value := median(values)) > limit:
                missed.append(f"{value:.3g} is above {limit:.3g} at {tasks:,} tasks")
    print("\n".join(missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
