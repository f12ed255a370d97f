"""A program run by agents in all roles of a cluster on this machine's loopback, recorded by a console."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local_cluster import end, run_files, start_agent, tasks_of, write_cluster
from recording import Recording

SERVING = ("ps", "dispatcher", "dataworker")


@dataclass(frozen=True)
class Ran:
    """Results of a program: the recording and the logs."""

    recording: Recording
    logs: dict[str, str]
    """Log of each task, by its name, as in `worker:0`."""
    ending: set[str]
    """The tasks that end by themselves."""

    def exit_code(self, task: str) -> int | None:
        status = [frame["status"] for frame in self.recording.frames if frame["task"] == task][-1]
        return status["exit"]["code"] if status["exit"] else None


def run_program(
    folder: Path, command: Sequence[str | Path], roles: Mapping[str, int], variables: Mapping[str, str], timeout: float
) -> Ran:
    """Run a command as every task until those that end by themselves have ended: chief, evaluator, else workers."""
    cluster, out = write_cluster(folder, **roles), folder / "run.jsonl"
    serving = SERVING if "chief" not in roles else (*SERVING, "worker")
    ending = {f"{role}:{index}" for role, index in tasks_of(roles) if role not in serving}
    with _agents(folder, cluster, roles, command, variables), _console(cluster, out):
        _wait(out, ending, timeout)
    logs = {
        f"{role}:{index}": (run_files(folder) / f"{role}-{index}.log").read_text() for role, index in tasks_of(roles)
    }
    return Ran(Recording.read(out), logs, ending)


@contextlib.contextmanager
def _agents(
    folder: Path, cluster: Path, roles: Mapping[str, int], command: Sequence[str | Path], variables: Mapping[str, str]
) -> Iterator[None]:
    agents = [start_agent(folder, cluster, index, command, variables, role=role) for role, index in tasks_of(roles)]
    try:
        yield
    finally:
        end(agents)


@contextlib.contextmanager
def _console(cluster: Path, out: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", cluster, "--headless", "--out", out]
    console = subprocess.Popen(command)
    try:
        yield
    finally:
        console.send_signal(signal.SIGINT)
        console.wait(20)


def _wait(out: Path, tasks: set[str], timeout: float) -> None:
    """Wait until each task has ended, and five seconds more for its last frames and what they mean."""
    until = time.monotonic() + timeout
    while missing := tasks - _ended(out):
        assert time.monotonic() < until, f"still running: {sorted(missing)}"
        time.sleep(0.5)
    time.sleep(5)


def _ended(out: Path) -> set[str]:
    lines = out.read_text().splitlines(keepends=True) if out.exists() else []
    objects = [json.loads(line) for line in lines if line.endswith("\n")]
    return {each["task"] for each in objects if each["type"] == "frame" and each["status"]["state"] == "exited"}
