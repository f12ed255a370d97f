"""Tasks whose probe does not start: what the console says of them, from a real agent and real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from local_cluster import once, running, unhealthy, wait_until, write_cluster

TRAIN = "import sys, time\nimport tensorflow\nprint('trains', flush=True)\ntime.sleep(float(sys.argv[1]))\n"
OLD = next(iter(Path.home().glob(".pyenv/versions/3.9.*/bin/python")), None)
"""Python that is too old for the probe, None where the machine has none."""


def script(folder: Path) -> Path:
    """Write a script, and beside it a TensorFlow that has none of its modules; return the script."""
    (folder / "tensorflow.py").write_text("__version__ = '2.99.0'\n")
    (folder / "train.py").write_text(TRAIN)
    return folder / "train.py"


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (sys.executable, "TensorFlow 2.99.0: install all of tfscale anew beside its agent, or report this with the"),
        pytest.param(
            OLD,
            "the probe needs 3.10 or newer",
            marks=pytest.mark.skipif(OLD is None, reason="this machine has no Python 3.9"),
        ),
    ],
    ids=["TensorFlow", "Python"],
)
def test_what_keeps_the_probe_from_starting_is_the_headline(tmp_path: Path, python: str, said: str) -> None:
    cluster = write_cluster(tmp_path, 1)
    with running(tmp_path, cluster, 1, [python, script(tmp_path), "60"], {}):
        snapshot = unhealthy(cluster)
    assert snapshot["headline"].startswith(
        "worker:0 is neither measured nor repaired: the probe could not start in its process "
    )
    assert said in snapshot["headline"]
    assert [diagnosis["kind"] for diagnosis in snapshot["diagnoses"]] == ["not_measured"]
    (task,) = snapshot["tasks"]
    assert task["probe"]["state"] == "absent" and said in task["probe"]["message"]


def test_a_task_that_ended_well_before_anybody_looked_was_not_measured(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 1)
    with running(tmp_path, cluster, 1, [sys.executable, script(tmp_path), "0"], {}):
        wait_until(lambda: once(cluster)[1]["tasks"][0]["status"]["state"] == "exited")
        status, snapshot = once(cluster)
    assert status == 3
    assert snapshot["headline"].startswith("worker:0 was not measured: the probe could not start in its process ")


@pytest.mark.slow
def test_a_task_without_tensorflow_is_told_apart_from_one_that_is_silent(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 1)
    with running(tmp_path, cluster, 1, [sys.executable, "-c", "import time; time.sleep(60)"], {}):
        wait_until(lambda: "TensorFlow" in once(cluster)[1]["headline"])
        _, snapshot = once(cluster)
    assert snapshot["headline"] == "waiting for worker:0: its process has not loaded TensorFlow so far"
    assert snapshot["tasks"][0]["probe"]["state"] == "expected"
