"""Launchers of agents on hosts: the words and the cluster file of so many of a file's workers."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.errors import UsageError
from tfscale.trainer.launch import launched_cluster
from tfscale.trainer.launch.launched_cluster import Launcher, launcher_of

FILE = """
name = "digits"
[cluster]
worker = ["a:2222", "a:2223", "b:2222"]
[agents]
"worker:1" = "a:7171"
[tls]
ca = "ca.pem"
certificate = "own.pem"
key = "/keys/own.key"
"""


def test_a_launcher_has_the_hosts_of_the_first_workers(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(FILE)
    words = ["mpirun", "-n", "{workers}", "--host={hosts}"]
    all_three = launcher_of(words, tmp_path / "c.toml", 3)
    assert all_three.words == ["mpirun", "-n", "3", "--host=a,b"]
    two = launcher_of(words, tmp_path / "c.toml", 2)
    assert two.words[-1] == "--host=a" and not two.is_insecure
    (tmp_path / "two.json").write_text(two.cluster)
    spec, whole = load_cluster(tmp_path / "two.json"), load_cluster(tmp_path / "c.toml")
    assert list(spec.tasks.items()) == list(whole.tasks.items())[:2] and spec.name == "digits"
    assert all(spec.agents[task] == whole.agents[task] for task in spec.tasks)
    assert spec.tls == whole.tls


def test_a_file_without_certificates_is_insecure_and_without_a_file_the_launcher_knows(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"cluster": {"worker": ["a:1"]}}))
    assert launcher_of(["x"], tmp_path / "c.json", 1).is_insecure
    alone = launcher_of(["srun", "-n", "{workers}"], None, 4)
    assert (alone.words, alone.cluster, alone.is_insecure) == (["srun", "-n", "4"], "", False)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"worker": ["a:1"]}, "has 1 worker, and --sizes names 2"),
        ({"worker": ["a:1", "b:1"], "ps": ["c:1"]}, "scale varies workers, and it has other tasks, too"),
    ],
)
def test_other_clusters_are_refused(tmp_path: Path, cluster: dict[str, list[str]], said: str) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"cluster": cluster}))
    with pytest.raises(UsageError, match=said):
        launcher_of(["x"], tmp_path / "c.json", 2)


def test_a_launcher_that_does_not_end_is_killed_with_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched_cluster, "_PATIENCE", 0.2)
    stays = Launcher(["bash", "-c", 'trap "" TERM; echo begun; sleep 600 & wait; sleep 600', "launcher"])
    with launched_cluster.launched_cluster(tmp_path, stays, command=["true"], flags=[], variables={}) as cluster:
        (process,) = cluster.agents.values()
        while b"begun" not in (tmp_path / "log").read_bytes():
            time.sleep(0.01)
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        while True:
            os.killpg(process.pid, 0)
            time.sleep(0.01)
