"""Tasks that cannot be measured: what the console says of them, from a real agent and real processes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from local_cluster import end, once, running, wait_until, write_cluster
from task_cluster import run_workers
from tfscale.agent.supervision.task_environment import probe_portions
from tfscale.core.cluster.local.runtime_folder import runtime_folders

PROGRAMS = Path(__file__).parents[1] / "programs"
TRAIN = """
import mmap, sys, time
import tensorflow
library = open(tensorflow.__file__.replace("tensorflow.py", "libtensorflow.so"))
mapped = mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)
print("trains", flush=True)
time.sleep(float(sys.argv[1]))
"""
PAST = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "tfscale" not in finder.__module__]
"""
SOON = 10.0
"""Most seconds from the start of a process until the console says that it is not measured."""
READS_ALL = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
"""Flags of setpriv for a user who reads root's files, where the Python of the tests may be, and does no more."""
AS_NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups", *READS_ALL]
HIDDEN = 'mount -t tmpfs none "$0" && exec "$@"'
EXECUTE = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
TRAINER = probe_portions()[-1]
SOCKETS = str(runtime_folders(os.environ)[0])
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="root alone becomes another user, and mounts")


def write_scripts(folder: Path) -> None:
    """Write scripts of each way, and beside them a TensorFlow that has a library and none of its modules."""
    (folder / "tensorflow.py").write_text("__version__ = '2.99.0'\n")
    (folder / "libtensorflow.so").write_text("not really")
    (folder / "train.py").write_text(TRAIN)
    (folder / "past.py").write_text(PAST + TRAIN)
    (folder / "other.py").write_text("import sys, time\ntime.sleep(float(sys.argv[1]))\n")
    (folder / "before").mkdir()
    (folder / "before" / "sitecustomize.py").touch()


def first_unhealthy(cluster: Path, least: int = 1) -> dict[str, Any]:
    """Return the first snapshot with so many diagnoses that ends `--once` with 3; it must be there soon."""
    while True:
        status, snapshot = once(cluster)
        if status == 3 and len(snapshot["diagnoses"]) >= least:
            return snapshot
        begun = [task["status"]["started"] for task in snapshot["tasks"] if task["status"]]
        assert not begun or snapshot["time"] - max(each or snapshot["time"] for each in begun) < SOON, snapshot


@dataclass(frozen=True)
class Way:
    """Way in which a task is not measured."""

    launcher: Sequence[str | Path]
    """Words before the script and its seconds; a word `{folder}` begins with the folder of the script."""
    said: str
    verb: str = "neither measured nor repaired"
    script: str = "train.py"
    marks: Sequence[pytest.MarkDecorator] = ()


def old_python(version: str) -> Way:
    """Return the way of a Python in which the probe does not run; skipped where there is none."""
    python = next(iter(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), None)
    missing = pytest.mark.skipif(python is None, reason=f"this machine has no Python {version}")
    said = f"runs Python {version}, and the probe needs 3.10 or newer: install that"
    return Way([str(python)], said, marks=[missing])


PYTHON = sys.executable
AGAIN = f"or run 'tfscale-agent install-probe --python {PYTHON}' once; then restart it"
WAYS = {
    "TensorFlow": Way(
        [PYTHON],
        "TensorFlow 2.99.0: install all of tfscale anew beside its agent, or report this with the task's log",
    ),
    "meta path": Way(
        [PYTHON], "has loaded TensorFlow past the probe: the task's log says why in a line", script="past.py"
    ),
    "no TensorFlow": Way(
        [PYTHON],
        "none of its processes has imported TensorFlow (",
        verb="not measured",
        script="other.py",
    ),
    "-I": Way([PYTHON, "-I"], f"was started with -I, which ignores PYTHONPATH: leave that out, {AGAIN}"),
    "-E": Way([PYTHON, "-E"], f"was started with -E, which ignores PYTHONPATH: leave that out, {AGAIN}"),
    "-S": Way([PYTHON, "-S"], "was started with -S, which reads no packages: leave that out"),
    "env -i": Way(["env", "-i", PYTHON], "was cleaned, and lacks TFSCALE_REPORT: keep all TFSCALE_ variables in it"),
    "PYTHONPATH": Way(
        ["env", "PYTHONPATH=src", PYTHON],
        f"was set to 'src' anew: write PYTHONPATH=src:$PYTHONPATH in its launcher, {AGAIN}",
    ),
    "no PYTHONPATH": Way(["env", "-u", "PYTHONPATH", PYTHON], "was removed: write PYTHONPATH=FOLDER:$PYTHONPATH"),
    "sitecustomize": Way(
        ["sh", "-c", 'PYTHONPATH=$0:$PYTHONPATH exec "$@"', "{folder}/before", PYTHON],
        "/before/sitecustomize.py before the probe's: put that folder last",
    ),
    "another Python": Way([PYTHON, "-c", EXECUTE, PYTHON, "-I"], "was started with -I, which ignores PYTHONPATH"),
    "Python 3.8": old_python("3.8"),
    "Python 3.9": old_python("3.9"),
    "user and network": Way(
        ["unshare", "-n", *AS_NOBODY, PYTHON],
        "runs as nobody in a network of its own, and may not open the agent's socket: start the agent as that user",
        marks=[needs_root],
    ),
    "socket and network": Way(
        ["unshare", "-mn", "sh", "-c", HIDDEN, "{socket}", PYTHON],
        f"does not see {SOCKETS}/",
        marks=[needs_root],
    ),
    "container": Way(
        ["unshare", "-m", "sh", "-c", HIDDEN, Path(TRAINER).parent, PYTHON],
        f"does not see {TRAINER}, which the probe needs: mount that path in its container",
        marks=[needs_root],
    ),
}


def words(way: Way, folder: Path) -> list[str]:
    """Return the command of a way for the scripts in this folder."""
    given = [str(word).replace("{folder}", str(folder)).replace("{socket}", SOCKETS) for word in way.launcher]
    return [*given, str(folder / way.script), "60"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=way.marks) for name, way in WAYS.items()])
def test_what_keeps_the_probe_out_is_the_headline(tmp_path: Path, name: str) -> None:
    write_scripts(tmp_path)
    way, cluster = WAYS[name], write_cluster(tmp_path, 1)
    with running(tmp_path, cluster, 1, words(way, tmp_path), {}):
        snapshot = first_unhealthy(cluster)
    assert [diagnosis["kind"] for diagnosis in snapshot["diagnoses"]] == ["not_measured"]
    assert snapshot["headline"] == snapshot["diagnoses"][0]["sentence"]
    assert snapshot["headline"].startswith(f"worker:0 is {way.verb}: ") and way.said in snapshot["headline"]
    (task,) = snapshot["tasks"]
    assert task["probe"]["state"] == ("absent" if way.verb.startswith("neither") else "expected")
    assert way.said in task["probe"]["message"]


def test_each_way_is_told_of_its_own_task(tmp_path: Path) -> None:
    ways = {name: way for name, way in WAYS.items() if not any(mark.args and mark.args[0] for mark in way.marks)}
    write_scripts(tmp_path)
    cases = [f"worker:{index}) exec {shlex.join(words(way, tmp_path))};;" for index, way in enumerate(ways.values())]
    (tmp_path / "each.sh").write_text("\n".join(["case $TFSCALE_TASK in", *cases, "esac"]))
    cluster = write_cluster(tmp_path, len(ways))
    flags = ["--cluster", cluster, "--state-dir", tmp_path, "--grace", "5"]
    agent = subprocess.Popen([PYTHON, "-m", "tfscale.agent.cli", *flags, "--", "sh", tmp_path / "each.sh"])
    try:
        snapshot = first_unhealthy(cluster, len(ways))
    finally:
        end([agent])
    told = {each["subject"]: each["sentence"] for each in snapshot["diagnoses"] if each["kind"] == "not_measured"}
    for index, (name, way) in enumerate(ways.items()):
        assert way.verb in told[f"worker:{index}"] and way.said in told[f"worker:{index}"], name
    assert snapshot["headline"] in told.values()


@pytest.mark.slow
def test_a_task_that_ended_at_once_was_not_measured(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 1)
    with running(tmp_path, cluster, 1, ["true"], {}):
        wait_until(lambda: once(cluster)[1]["tasks"][0]["status"]["state"] == "exited")
        status, snapshot = once(cluster)
    assert status == 3
    assert snapshot["headline"] == "worker:0 was not measured: its process ended before anything was seen of it"


def test_a_task_that_ended_well_before_anybody_looked_was_not_measured(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 1)
    write_scripts(tmp_path)
    with running(tmp_path, cluster, 1, [PYTHON, tmp_path / "train.py", "0"], {}):
        wait_until(lambda: once(cluster)[1]["tasks"][0]["status"]["state"] == "exited")
        status, snapshot = once(cluster)
    assert status == 3
    assert snapshot["headline"].startswith("worker:0 was not measured: the probe could not start in its process ")


@needs_root
@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_script_that_another_user_runs_is_measured(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run = run_workers(tmp_path, [*AS_NOBODY, sys.executable, PROGRAMS / "mirrored_fit.py"], 1)
    assert run.steps["worker:0"]["sequence"] == list(range(300))
    assert run.told("not_measured") == []
