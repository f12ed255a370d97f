"""Listings in `programs/listings/`, run under agents as their reader would, and what is said about them afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cluster import end, run_files, start_agent, tasks_of, write_cluster

LISTINGS = Path(__file__).parents[1] / "programs" / "listings"
STOCK = ("env", "-u", "PYTHONPATH")
"""Start of a command that the probe does not get into."""


@dataclass(frozen=True)
class Told:
    """Logs of the tasks and of their agents, the snapshot of `--once` afterwards, and whether all ended in time."""

    logs: dict[str, str]
    agents: str
    once: dict[str, Any]
    ended: bool

    @property
    def lines(self) -> list[str]:
        """Lines of tfscale in the logs of the tasks, each once, without the agents' own about starts and ends."""
        found = [line for log in self.logs.values() for line in log.splitlines() if line.startswith("tfscale: ")]
        return list(dict.fromkeys(found))

    @property
    def sentences(self) -> list[str]:
        return [diagnosis["sentence"] for diagnosis in self.once["diagnoses"]]

    def exit_codes(self) -> list[int | None]:
        ends = [task["status"]["exit"] for task in self.once["tasks"]]
        return [end and end["code"] for end in ends]

    def notes(self) -> list[str]:
        return [note for task in self.once["tasks"] for note in task["notes"]]


def run_listing(
    folder: Path,
    name: str,
    roles: Mapping[str, int],
    seconds: float,
    *flags: str,
    before: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Told:
    """Run a listing as every task of a cluster until all tasks have ended, at most so many seconds."""
    cluster = write_cluster(folder, **roles)
    program = ["env", "-C", folder, *before, sys.executable, LISTINGS / f"{name}.py"]
    errors = folder / "agents.log"
    logs = {f"{role}:{index}": run_files(folder) / f"{role}-{index}.log" for role, index in tasks_of(roles)}
    with errors.open("w") as said:
        agents = [
            start_agent(folder, cluster, index, program, variables, role=role, more=flags, said=said.fileno())
            for role, index in tasks_of(roles)
        ]
        try:
            ended = _wait([*logs.values()], seconds)
            once = _once(cluster)
        finally:
            end(agents)
    texts = {task: path.read_text() if path.exists() else "" for task, path in logs.items()}
    return Told(texts, errors.read_text(), once, ended)


def _wait(logs: Sequence[Path], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not all(log.exists() and ": ended with " in log.read_text() for log in logs):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _once(cluster: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", str(cluster), "--once"]
    told: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    return told
