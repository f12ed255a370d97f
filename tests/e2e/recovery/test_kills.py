"""`kill -9` of a running agent and of a task, and a restart of the gang, with real TensorFlow workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from local_cluster import end, start_agent, write_cluster
from recording import Recording
from tfscale.agent import wire
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task_identity import identity_of
from tfscale.v1 import agent_pb2, agent_pb2_grpc

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


class Cluster:
    """Two agents, and a console that writes down their frames."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = write_cluster(folder, 2)
        self.out = folder / "run.jsonl"
        self.agents = [self.start(index) for index in range(2)]
        console = ["-m", "tfscale.console.cli", "--cluster", self.file, "--headless", "--out", self.out]
        self.console = subprocess.Popen([sys.executable, *console])

    def start(self, index: int) -> subprocess.Popen[bytes]:
        return start_agent(self.folder, self.file, index, DIGITS, VARIABLES)

    def end(self) -> None:
        self.console.terminate()
        self.console.wait(10)
        end(self.agents)

    def wait_for(self, what: Callable[[Recording], Any], seconds: float = 60) -> Any:
        """Return what `what` finds in the recording, once it finds something."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.out.exists() and (found := what(Recording.read(self.out))):
                return found
            time.sleep(0.5)
        raise AssertionError(self.out.read_text()[-3000:])

    def status(self, index: int) -> dict[str, Any]:
        frames = Recording.read(self.out).frames
        newest: dict[str, Any] = [frame for frame in frames if frame["task"] == f"worker:{index}"][-1]["status"]
        return newest

    def restart(self) -> list[agent_pb2.Progress]:
        spec = load_cluster(self.file)

        async def ask() -> list[agent_pb2.Progress]:
            async with open_channel(spec.agents[spec.lead], spec) as channel:
                to = wire.identity_message(identity_of(spec, spec.name, spec.lead))
                request = agent_pb2.TasksRequest(tasks=["worker:1"], reason="test", to=to)
                return [each async for each in agent_pb2_grpc.AgentStub(channel).Restart(request)]

        return asyncio.run(ask())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    try:
        yield started
    finally:
        started.end()


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
def test_training_outlives_its_agent_a_death_names_its_culprit_and_a_restart_mends_it(cluster: Cluster) -> None:
    cluster.wait_for(stepped(1, 30), 120)
    task = cluster.status(1)["pid"]

    cluster.agents[1].kill()
    cluster.agents[1].wait()
    time.sleep(2)
    assert psutil.pid_exists(task)
    cluster.agents[1] = cluster.start(1)
    reached = max(Recording.read(cluster.out).steps["worker:1"]["sequence"])
    cluster.wait_for(stepped(1, reached + 50))
    assert cluster.status(1)["pid"] == task
    assert cluster.status(1)["state"] == "running"
    last = [frame for frame in Recording.read(cluster.out).frames if frame["task"] == "worker:1"][-1]
    assert last["probe"]["strategy"] == "MultiWorkerMirroredStrategy"

    os.kill(task, signal.SIGKILL)
    # Told when it happened, and again when worker:0 followed.
    crashes = cluster.wait_for(lambda run: [told for told in run.told("crash") if "worker:0" in told["sentence"]])
    assert all(told["subject"] == "worker:1" and "SIGKILL" in told["sentence"] for told in crashes)

    progress = cluster.restart()
    assert progress[-1].stage == agent_pb2.STAGE_DONE
    assert sorted(progress[0].tasks) == ["worker:0", "worker:1"]
    cluster.wait_for(stepped(2, 30), 120)
    crashes = Recording.read(cluster.out).told("crash")
    assert {(told["subject"], told["begin"]) for told in crashes} == {("worker:1", crashes[0]["begin"])}
    assert crashes[-1]["end"] is not None
    assert Recording.read(cluster.out).told("straggler") == []
