"""Names of a Slurm step's run and of its cluster file, which lies beside the logs of the step's tasks."""

from __future__ import annotations

import re
from pathlib import Path

CLUSTER_FILE = "cluster.json"
_RUN = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-[0-9a-f]+)?")


def step_run(job: int, step: int, restart: int) -> str:
    """Return the name of the run of a step; a requeued job begins another run."""
    return f"{job}.{step}.{restart}"


def newest_cluster(state_dir: Path, job: int, step: str = "*") -> Path | None:
    """Return the cluster file of a job's step since the job was last requeued, of its newest; None without one."""

    def age(path: Path) -> tuple[int, int]:
        match = _RUN.fullmatch(path.parent.name)
        return (int(match[3]), int(match[2])) if match is not None else (-1, -1)

    return max(state_dir.glob(f"{job}.{step}.*/{CLUSTER_FILE}"), key=age, default=None)
