"""`kill -9` of a running agent and of a task, and a restart of the gang, with real TensorFlow workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from recording import Recording
from task_cluster import WatchedCluster, watched
from tfscale.v1 import agent_pb2

pytestmark = pytest.mark.alone

DIGITS = [
    sys.executable,
    "-m",
    "tfscale.trainer.cli",
    "run",
    "digits",
    "--strategy",
    "multi-worker",
    "--steps",
    "1000000",
]
VARIABLES = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WatchedCluster]:
    with watched(tmp_path, DIGITS, {"worker": 2}, VARIABLES) as started:
        yield started


def stepped(generation: int, least: int) -> Callable[[Recording], bool]:
    """Return a function that decides whether both workers have so many steps in a generation."""

    def have(run: Recording) -> bool:
        newest = {"worker:0": -1, "worker:1": -1}
        for frame in run.frames:
            for batch in frame["steps"]:
                if batch["generation"] == generation:
                    newest[batch["subject"]] = max(newest[batch["subject"]], *batch["sequence"])
        return min(newest.values()) >= least

    return have


@pytest.mark.tensorflow
def test_training_outlives_its_agent_a_death_names_its_culprit_and_a_restart_mends_it(cluster: WatchedCluster) -> None:
    cluster.wait_for(stepped(1, 30), 120)
    task = cluster.read().status("worker:1")["pid"]

    cluster.agents["worker:1"].kill()
    cluster.agents["worker:1"].wait()
    time.sleep(2)
    assert psutil.pid_exists(task)
    cluster.agents["worker:1"] = cluster.start("worker:1")
    reached = max(cluster.read().steps["worker:1"]["sequence"])
    cluster.wait_for(stepped(1, reached + 50))
    assert cluster.read().status("worker:1")["pid"] == task
    assert cluster.read().status("worker:1")["state"] == "running"
    last = cluster.read().frames_of("worker:1")[-1]
    assert last["probe"]["strategy"] == "MultiWorkerMirroredStrategy"

    os.kill(task, signal.SIGKILL)
    # Told when it happened, and again when worker:0 followed.
    crashes = cluster.wait_for(lambda run: [told for told in run.told("crash") if "worker:0" in told["sentence"]])
    assert all(told["subject"] == "worker:1" and "SIGKILL" in told["sentence"] for told in crashes)

    progress = cluster.restart("worker:1")
    assert progress[-1].stage == agent_pb2.STAGE_DONE
    assert sorted(progress[0].tasks) == ["worker:0", "worker:1"]
    cluster.wait_for(stepped(2, 30), 120)
    crashes = cluster.read().told("crash")
    assert {(told["subject"], told["begin"]) for told in crashes} == {("worker:1", crashes[0]["begin"])}
    assert crashes[-1]["end"] is not None
    assert cluster.read().told("straggler") == []
