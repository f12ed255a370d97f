"""Check on a real GPU what tests read through fakes, and print a table: ten minutes at most, on one GPU.

Without a GPU it says so and ends with 1; `--rehearse` runs there what a CPU can, to try the script itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.core.cluster.local.loopback_cluster import write_local_cluster, write_lone_cluster

PROGRAM = Path(__file__).with_name("gpu_program.py")
_MODULE = (sys.executable, "-m")
Widths = tuple[str, str]
"""Widths of the small and the large model."""
Judged = tuple[str, str, bool]
"""Measurement, bound, and whether it was kept."""
_ON_GPU: Widths = ("1024", "4096")
_ON_CPU: Widths = ("64", "128")
_DELAY = 20.0
"""Milliseconds of work that are added to a step."""


@dataclass(frozen=True)
class Run:
    """A program under agents: the steps and frames that a console recorded, and what each program printed."""

    frames: list[dict[str, Any]]
    printed: list[dict[str, float]]

    @property
    def steps(self) -> int:
        return sum(len(batch["sequence"]) for frame in self.frames for batch in frame["steps"])

    def median(self, phase: str) -> float:
        """Return the median milliseconds of a phase."""
        values = [value for frame in self.frames for batch in frame["steps"] for value in batch[phase] or []]
        known = [value for value in values if value is not None]
        return 1e3 * statistics.median(known) if known else float("nan")

    @property
    def gpu_bytes(self) -> int:
        """Most memory of the first GPU that was in use."""
        return max((frame["gpus"][0]["memory_used"] or 0 for frame in self.frames if frame["gpus"]), default=0)


def main() -> int:
    """Print a row for each check; return 1 if one was not kept, or if there is no GPU."""
    parser = argparse.ArgumentParser(prog="scripts/gpu_check", description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="without a GPU: run what a CPU can")
    rehearses = parser.parse_args().rehearse
    gpus = _collected()
    if not gpus and not rehearses:
        print("no GPU: NVML finds none (--rehearse runs what a CPU can)", file=sys.stderr)
        return 1
    print(f"{time.strftime('%Y-%m-%d')}, {gpus[0].name if gpus else 'no GPU, a rehearsal on the CPU'}\n")
    print("| check | measured | bound | kept |\n| --- | --- | --- | --- |")
    checks = _CHECKS if gpus else _CHECKS[1:]
    failed = sum(not _row(name, check, _ON_GPU if gpus else _ON_CPU) for name, check in checks)
    return min(failed, 1)


def _row(name: str, check: Callable[[Widths], Judged], widths: Widths) -> bool:
    try:
        measured, bound, kept = check(widths)
    except Exception as error:
        measured, bound, kept = f"failed: {error!r}"[:200], "", False
    print(
        f"| {name} | {measured} | {bound} | {'yes' if kept else 'no'}{'' if widths is _ON_GPU else ' (CPU)'} |",
        flush=True,
    )
    return kept


def _nvml(_widths: Widths) -> Judged:
    (own, *_), fields = _collected(), "memory.total,power.limit,clocks.max.sm,temperature.gpu"
    words = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"]
    smi = [float(text) for text in subprocess.check_output(words, text=True).strip().split(",")]
    ours = [own.memory_total / 2**20, own.power_limit, own.clock_max / 1e6, own.temperature]
    apart = max(abs(a - b) / b for a, b in zip(ours, smi, strict=True))
    return f"{fields}: {ours} and {smi}", "within 5 %", apart < 0.05


def _phases(widths: Widths) -> Judged:
    plain, delayed = _run("200", widths[0]), _run("200", widths[0], "--delay", f"{_DELAY}")
    more = delayed.median("compute") - plain.median("compute")
    own = 1e3 * (delayed.printed[0]["step"] - plain.printed[0]["step"])
    others = max(abs(delayed.median(phase) - plain.median(phase)) for phase in ("host", "input", "update"))
    text = f"compute +{more:.1f} ms, the program's step +{own:.1f} ms, others at most {others:.1f} ms"
    return text, "within 20 % of the program's own", abs(more - own) < 0.2 * own


def _fit(widths: Widths) -> Judged:
    run = _run("200", widths[0], "--fit")
    return f"{run.steps} of 210 steps", "all", run.steps == 210


def _mixed(widths: Widths) -> Judged:
    full, half = (_run("60", widths[1], *flags).printed[0]["step"] for flags in ((), ("--policy", "mixed_float16")))
    return f"{1e3 * full:.1f} ms and {1e3 * half:.1f} ms a step: {full / half:.2f}x", "above 1.2x", full / half > 1.2


def _memory(widths: Widths) -> Judged:
    grown, limited, whole = (
        _run("100", widths[0], *flags).gpu_bytes for flags in (("--growth",), ("--limit", "4096"), ())
    )
    text = f"{grown / 2**30:.1f}, {limited / 2**30:.1f} and {whole / 2**30:.1f} GiB in use"
    return text, "growth < limit < all", grown < limited < whole


def _two_tasks(widths: Widths) -> Judged:
    run = _run("200", widths[0], "--growth", workers=2)
    return f"{run.steps} of 410 steps", "all", run.steps == 410


def _profile(widths: Widths) -> Judged:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _agents(folder, ("1000000", widths[0]), 1) as cluster:
            _wait_for_steps(cluster)
            words = [*_MODULE, "tfscale.console.cli", "--cluster", cluster, "--yes", "profile", "worker:0"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        files = [path.name for path in folder.rglob("*.xplane.pb")]
    return f"{files or done.stderr.strip()[-120:]}", "a file", bool(files)


def _collected() -> tuple[Any, ...]:
    collector = GpuCollector()
    collector.start()
    time.sleep(1.5)
    collector.stop()
    return collector.latest()


def _run(*arguments: str, workers: int = 1) -> Run:
    """Run the program under agents to its end."""
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "run.jsonl"
        with _agents(folder, arguments, workers) as cluster:
            console = ["--cluster", cluster, "--headless", "--until", "finished", "--out", out]
            subprocess.run([*_MODULE, "tfscale.console.cli", *console], check=True, timeout=200)
            logs = [path.read_text() for path in sorted(folder.rglob("worker-?.log"))]
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        printed = [
            json.loads(found[-1]) for log in logs if (found := re.findall(r"^measured (.*)$", log, re.MULTILINE))
        ]
        if len(printed) < workers:
            raise RuntimeError(logs[0][-300:])
    return Run([line for line in lines if line["type"] == "frame"], printed)


@contextlib.contextmanager
def _agents(folder: Path, arguments: Sequence[str], workers: int) -> Iterator[Path]:
    path = folder / "gpu.toml"
    write_lone_cluster(path) if workers == 1 else write_local_cluster(path, {"worker": workers})
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    flags = ["--cluster", path, "--state-dir", folder, "--log-level", "error", "--role", "worker"]
    agents = [
        subprocess.Popen(
            [*_MODULE, "tfscale.agent.cli", *flags, "--index", str(index), "--", sys.executable, PROGRAM, *arguments],
            env=environment,
        )
        for index in range(workers)
    ]
    try:
        yield path
    finally:
        for agent in agents:
            agent.terminate()
        for agent in agents:
            agent.wait()


def _wait_for_steps(cluster: Path) -> None:
    words = [*_MODULE, "tfscale.console.cli", "--cluster", cluster, "--headless", "--seconds", "3", "--out", os.devnull]
    subprocess.run(words, check=True, timeout=120)


_CHECKS = (
    ("NVML beside nvidia-smi", _nvml),
    ("20 ms more of kernels are in `compute`", _phases),
    ("Keras's own `fit`, which turns XLA on with a GPU", _fit),
    ("mixed_float16 against float32", _mixed),
    ("memory: growth, a limit of 4 GiB, and all of it", _memory),
    ("two tasks on one GPU, each measured", _two_tasks),
    ("a profile on demand", _profile),
)


if __name__ == "__main__":
    sys.exit(main())
