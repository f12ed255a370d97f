"""Programs of `programs/in_scope`, as all tasks of a cluster under agents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from example_programs import KERAS
from tfscale.trainer.launch.local_cluster import local_cluster

PROGRAMS = Path(__file__).parents[1] / "programs" / "in_scope"
CLUSTERS = {
    "one host": {"worker": 1},
    "multi-worker": {"worker": 2},
    "parameter-server": {"chief": 1, "worker": 1, "ps": 2},
}
ON_ONE_HOST = ("one-device", "mirrored", "mirrored, 3", "central-storage")


def run(
    folder: Path, program: str, tasks: str, keras: str, words: Sequence[str | Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a program in one of the clusters until it has ended well."""
    for name, value in (KERAS[keras] | {"CUDA_VISIBLE_DEVICES": ""}).items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, PROGRAMS / f"{program}.py", *words]
    with local_cluster(folder, "scopes", tasks=CLUSTERS[tasks], command=command, flags=["--exit-with-task"]) as cluster:
        failed = cluster.wait()
        assert failed is None, cluster.task_log(failed)[-3000:].decode()
