"""Agents with real tasks on this machine's loopback."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from loopback import free_addresses
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.task_files import state_folder

ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


def tasks_of(roles: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(role, index) for role, number in roles.items() for index in range(number)]


def write_cluster(folder: Path, worker: int, **others: int) -> Path:
    """Write a cluster file with free ports, for so many tasks of each role."""
    roles = {"worker": worker, **others}
    tasks = tasks_of(roles)
    addresses = free_addresses(2 * len(tasks))
    lines = [f"{role} = {json.dumps([*itertools.islice(addresses, number)])}" for role, number in roles.items()]
    agents = [f'"{role}:{index}" = "{address}"' for (role, index), address in zip(tasks, addresses, strict=True)]
    path = folder / "cluster.toml"
    path.write_text("\n".join(["[cluster]", *lines, "[agents]", *agents]))
    return path


def run_files(folder: Path) -> Path:
    """Return the folder of logs and state of the cluster that `write_cluster` has written in this one."""
    spec = load_cluster(folder / "cluster.toml")
    return state_folder(folder, spec.name, spec)


def start_agent(
    folder: Path,
    cluster: Path,
    index: int,
    command: Sequence[str | Path],
    variables: Mapping[str, str] | None = None,
    *,
    role: str = "worker",
    before: Sequence[str] = (),
    python: str | Path = sys.executable,
    more: Sequence[str] = (),
    said: int | None = None,
    out: int | None = None,
    module: Sequence[str | Path] = (),
    spare: str = "",
) -> subprocess.Popen[bytes]:
    """Start the agent of one task, or of a spare, with this Python and `more` flags; its state is below `folder`.

    `before` is put before its command; it writes to the descriptors `said` (stderr) and `out`, else where this process
    writes. `module` is run in the place of the agent's own.
    """
    whose = ["--spare", spare] if spare else ["--role", role, "--index", str(index)]
    flags = ["--cluster", cluster, "--state-dir", folder, "--grace", "5", *whose, *more]
    return subprocess.Popen(
        [*before, python, *(module or ("-m", "tfscale.agent.cli")), *flags, "--", *command],
        env=os.environ | ENVIRONMENT | (variables or {}),
        stderr=said,
        stdout=out,
    )


def end(agents: Sequence[subprocess.Popen[bytes]]) -> None:
    """End agents, and with them their tasks."""
    for agent in agents:
        agent.terminate()
    for agent in agents:
        agent.wait(120)


@contextlib.contextmanager
def running(
    folder: Path,
    cluster: Path,
    workers: int,
    command: Sequence[str | Path],
    variables: Mapping[str, str],
    *,
    before: Sequence[Sequence[str]] = ((),),
    python: str | Path = sys.executable,
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run all agents of a cluster until the block ends, with the words of `before` (in turn) before their commands."""
    agents = [
        start_agent(folder, cluster, index, command, variables, before=before[index % len(before)], python=python)
        for index in range(workers)
    ]
    try:
        yield agents
    finally:
        end(agents)


def once(cluster: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit status of `tfscale-console --once`, and its snapshot."""
    command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", cluster, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def unhealthy(cluster: Path) -> dict[str, Any]:
    """Return the first snapshot that has a diagnosis and ends `--once` with 3."""
    said: list[tuple[int, dict[str, Any]]] = []

    def is_unhealthy() -> bool:
        said.append(once(cluster))
        return said[-1][0] == 3 and bool(said[-1][1]["diagnoses"])

    wait_until(is_unhealthy)
    return said[-1][1]


def commands_with(word: str) -> list[list[str]]:
    """Return the commands of the processes of this machine that hold a word, such as the folder of a run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if word in " ".join(words := process.cmdline()):
                found.append(words)
    return found


def wait_until(true: Callable[[], bool], patience: float = 120.0) -> None:
    """Wait until this holds. Raises AssertionError after `patience` seconds."""
    until = time.monotonic() + patience
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)
