"""Cost of `tfscale-console watch` with many tasks, in turns with `--headless --record` on the same agents.

    .venv/bin/python scripts/bench/watch.py                          # 64 and 1,000 tasks
    .venv/bin/python scripts/bench/watch.py --tasks 64 --rounds 3
    .venv/bin/python scripts/bench/watch.py --against ../before      # in turns with the watch of another checkout, too
    .venv/bin/python scripts/bench/watch.py --metrics                # the watch has a page, which is read at the end

Prints CPU as a share of a core, and memory, of each process alone. The agents are those of scripts/bench/console.py:
100 steps and 8 GPUs of each task a second. Ends with 1 where the watch misses a budget, by the median of its rounds.
With `--metrics` it prints the seconds of the first five scrapes, one a second, and the bytes of the page.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

import psutil
from fake_agents import agents

BUDGETS = {64: (0.03, 400e6), 1000: (0.35, 400e6)}
"""Share of a core and bytes, by tasks."""


def measure(python: str, words: list[str], warm_up: float, seconds: float, page: str) -> tuple[float, int, str]:
    """Return CPU as a share of a core over `seconds`, memory in bytes at their end, and words about the page."""
    command = [python, "-m", "tfscale.console.cli", *words, "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        process = psutil.Process(running.pid)
        time.sleep(warm_up)
        before, begin = process.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, spent = process.cpu_times(), time.monotonic() - begin
        memory = process.memory_info().rss
        told = scrapes(page) if page else ""
        running.terminate()
    return (after.user + after.system - before.user - before.system) / spent, memory, told


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def scrapes(page: str) -> str:
    """Return the seconds of five scrapes, the first ones of the page, and its bytes."""
    took = []
    for _ in range(5):
        begin = time.monotonic()
        with urllib.request.urlopen(page) as answer:
            size = len(answer.read())
        took.append(time.monotonic() - begin)
        time.sleep(1.0)
    return f"   scrapes of {', '.join(f'{each:.2f}' for each in took)} s, {size / 1e6:.1f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[*BUDGETS], metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="S")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="a checkout with an environment of its own")
    parser.add_argument("--metrics", action="store_true")
    flags = parser.parse_args()
    missed = []
    for tasks in flags.tasks:
        known: list[tuple[float, int]] = []
        with tempfile.TemporaryDirectory(prefix="tfscale-bench-") as folder, agents(tasks, Path(folder)) as cluster:
            address = f"127.0.0.1:{free_port()}" if flags.metrics else ""
            watch = ["watch", "--cluster", str(cluster), *(["--metrics", address] if address else []), "--runs"]
            headless = ["--headless", "--cluster", str(cluster), "--only", "events", "--record"]
            programs = {"watch": (sys.executable, watch)}
            if flags.against:
                programs["against"] = (str(flags.against / ".venv/bin/python"), watch)
            elif not flags.metrics:
                programs["headless"] = (sys.executable, headless)
            for each in range(flags.rounds):
                for name in [*programs][:: -1 if each % 2 else 1]:
                    python, words = programs[name]
                    page = f"http://{address}/metrics" if address else ""
                    own = [*words, f"{folder}/{name}-{each}"]
                    cpu, memory, told = measure(python, own, flags.warm_up, flags.seconds, page)
                    print(f"{name:<10}{tasks:>6,}{cpu:>8.1%}{memory / 1e6:>8.0f} MB{told}", flush=True)
                    known += [(cpu, memory)] if name == "watch" else []
        for limit, values in zip(BUDGETS.get(tasks, ()), zip(*known, strict=True), strict=False):
            if (value := median(values)) > limit:
                missed.append(f"{value:.3g} is above {limit:.3g} at {tasks:,} tasks")
    print("\n".join(missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
