"""Tasks that cannot be measured: what the console says of them, from a real agent and real processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from local_cluster import once, running, unhealthy, wait_until, write_cluster
from task_cluster import run_workers
from tfscale.agent.supervision.task_environment import probe_portions

PROGRAMS = Path(__file__).parents[1] / "programs"
TRAIN = """
import mmap, sys, time
import tensorflow
library = open(__file__.replace("train.py", "libtensorflow.so"))
mapped = mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)
print("trains", flush=True)
time.sleep(float(sys.argv[1]))
"""
SOON = 10.0
"""Most seconds from the start of a process until the console says that it is not measured."""
READS_ALL = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
"""Flags of setpriv for a user who reads root's files, where the Python of the tests may be, and does no more."""
AS_NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups", *READS_ALL]
HIDDEN = 'mount -t tmpfs none "$0" && exec "$@"'
TRAINER = probe_portions()[-1]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="root alone becomes another user, and mounts")


def script(folder: Path) -> Path:
    """Write a script, and beside it a TensorFlow that has a library and none of its modules; return the script."""
    (folder / "tensorflow.py").write_text("__version__ = '2.99.0'\n")
    (folder / "libtensorflow.so").write_text("not really")
    (folder / "train.py").write_text(TRAIN)
    return folder / "train.py"


def told_soon(folder: Path, command: Sequence[str | Path]) -> dict[str, Any]:
    """Run a task that is not measured; return the snapshot that says so, which was there soon after its start."""
    cluster = write_cluster(folder, 1)
    with running(folder, cluster, 1, command, {}):
        snapshot = unhealthy(cluster)
    assert [diagnosis["kind"] for diagnosis in snapshot["diagnoses"]] == ["not_measured"]
    assert snapshot["headline"] == snapshot["diagnoses"][0]["sentence"]
    (task,) = snapshot["tasks"]
    assert snapshot["time"] - task["status"]["started"] < SOON
    return snapshot


def old_python(version: str) -> Any:
    """Return a Python in which the probe does not run, and what is said of it; skipped where there is none."""
    python = next(iter(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), None)
    missing = pytest.mark.skipif(python is None, reason=f"this machine has no Python {version}")
    said = f"runs Python {version}, and the probe needs 3.10 or newer"
    return pytest.param([str(python)], said, marks=[missing, pytest.mark.slow])


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (
            [sys.executable],
            "TensorFlow 2.99.0: install all of tfscale anew beside its agent, or report this with the task's log",
        ),
        old_python("3.8"),
        old_python("3.9"),
        pytest.param(
            ["unshare", "-n", *AS_NOBODY, sys.executable],
            "runs as nobody in a network of its own, and may not open the agent's socket: start the agent as that user",
            marks=[pytest.mark.slow, needs_root],
        ),
        pytest.param(
            ["unshare", "-m", "sh", "-c", HIDDEN, Path(TRAINER).parent, sys.executable],
            f"does not see {TRAINER}, which the probe needs: mount that path in its container",
            marks=[pytest.mark.slow, needs_root],
        ),
    ],
    ids=["TensorFlow", "Python 3.8", "Python 3.9", "user and network", "container"],
)
def test_what_keeps_the_probe_out_is_the_headline(tmp_path: Path, python: list[str | Path], said: str) -> None:
    snapshot = told_soon(tmp_path, [*python, script(tmp_path), "60"])
    assert snapshot["headline"].startswith("worker:0 is neither measured nor repaired: ")
    assert said in snapshot["headline"]
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
def test_a_task_without_tensorflow_is_told_with_its_command(tmp_path: Path) -> None:
    snapshot = told_soon(tmp_path, [sys.executable, "-c", "import time; time.sleep(60)"])
    python = Path(sys.executable).name
    assert snapshot["headline"].startswith(
        "worker:0 is not measured: none of its processes has imported TensorFlow "
        f"({python} -c 'import time; time.sleep(60)'), "
    )
    assert snapshot["tasks"][0]["probe"]["state"] == "expected"


@needs_root
@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_script_that_another_user_runs_is_measured(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run = run_workers(tmp_path, [*AS_NOBODY, sys.executable, PROGRAMS / "mirrored_fit.py"], 1)
    assert run.steps["worker:0"]["sequence"] == list(range(300))
    assert run.told("not_measured") == []
