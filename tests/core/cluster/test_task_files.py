"""Files of a task in its run's folder."""

from __future__ import annotations

from pathlib import Path

from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.local.loopback_cluster import lone_cluster
from tfscale.core.cluster.task import Role, Task
from tfscale.core.cluster.task_files import TaskFiles, state_folder


def test_tasks_of_one_folder_share_no_file() -> None:
    first, second = (TaskFiles(Path("/run"), Task(Role.WORKER, index)) for index in range(2))
    others = {"stem", "report"}
    names = [name for name, value in vars(TaskFiles).items() if isinstance(value, property) and name not in others]
    files = [getattr(task, name) for task in (first, second) for name in names]
    assert len(set(files)) == len(files) == 20
    assert first.log == Path("/run/worker-0.log")
    assert first.profiles == Path("/run/profiles/worker-0")
    assert first.report == second.report == Path("/run/report.txt")


def test_clusters_whose_files_have_one_name_share_no_folder() -> None:
    specs = [
        parse_cluster({"cluster": {"worker": [f"10.0.0.{host}:2222"]}}, name="cluster", where="t", base=Path())
        for host in (1, 2)
    ]
    first, second = (state_folder(Path("/state"), spec.name, spec) for spec in specs)
    assert first != second and first.match("/state/cluster-*") and second.match("/state/cluster-*")
    assert state_folder(Path("/state"), "train-3f2a91c0", lone_cluster("train")) == Path("/state/train-3f2a91c0")
