"""A chief, two workers and two parameter servers under agents: measured from the chief alone, and mended in parts."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from local_cluster import end, run_files, start_agent, write_cluster
from recording import Recording
from tfscale.agent import wire
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task_identity import identity_of
from tfscale.v1 import agent_pb2, agent_pb2_grpc

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "parameter_server.py"
TASKS = (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("chief", 0))
SHARD = 32 * 32 * 4
"""Bytes of one server's half of the only weights."""
SCALARS = 40
"""Bytes, at most, that a step exchanges with one server besides: counters, and the sums of metrics."""


class Cluster:
    """All agents, and a console that writes down their frames."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.file = write_cluster(folder, 2, chief=1, ps=2)
        self.out = folder / "run.jsonl"
        command = [sys.executable, PROGRAM, *arguments]
        variables = {"TF_NUM_INTRAOP_THREADS": "1"}
        self.agents = [start_agent(folder, self.file, index, command, variables, role=role) for role, index in TASKS]
        console = ["-m", "tfscale.console.cli", "--cluster", self.file, "--headless", "--out", self.out]
        self.console = subprocess.Popen([sys.executable, *console])

    def end(self) -> None:
        self.console.terminate()
        self.console.wait(10)
        end(self.agents)

    def read(self) -> Recording:
        return Recording.read(self.out)

    def wait_for(self, what: Callable[[Recording], Any], seconds: float = 90) -> Any:
        """Return what `what` finds in the recording, once it finds something."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.out.exists() and (found := what(self.read())):
                return found
            time.sleep(0.5)
        raise AssertionError(self.out.read_text()[-3000:])

    def send(self, task: str, number: signal.Signals) -> None:
        os.kill(status(self.read(), task)["pid"], number)

    def restart(self, task: str) -> set[str]:
        """Ask the lead to restart a task; return the tasks that it restarted."""
        spec = load_cluster(self.file)

        async def ask() -> list[agent_pb2.Progress]:
            async with open_channel(spec.agents[spec.lead], spec) as channel:
                to = wire.identity_message(identity_of(spec, spec.name, spec.lead))
                request = agent_pb2.TasksRequest(tasks=[task], reason="test", to=to)
                return [each async for each in agent_pb2_grpc.AgentStub(channel).Restart(request)]

        told = asyncio.run(ask())
        assert told[-1].stage == agent_pb2.STAGE_DONE
        return set(told[0].tasks)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Cluster]:
    cluster = Cluster(folder, *arguments)
    try:
        yield cluster
    finally:
        cluster.end()


def frames(run: Recording, task: str) -> list[dict[str, Any]]:
    return [frame for frame in run.frames if frame["task"] == task]


def status(run: Recording, task: str) -> dict[str, Any]:
    newest: dict[str, Any] = frames(run, task)[-1]["status"]
    return newest


def functions(run: Recording, index: int) -> dict[str, Any]:
    """Return the chief's newest report, in its newest attempt, of the functions of one worker."""
    generation = status(run, "chief:0")["generation"] if frames(run, "chief:0") else 0
    told = [frame for frame in frames(run, "chief:0") if frame["status"]["generation"] == generation]
    workers = [frame["coordinator"]["workers"] for frame in told if frame["coordinator"]]
    newest: dict[str, Any] = workers[-1][index] if workers else {"finished": 0, "failed": 0, "since": None}
    return newest


def has_ended(run: Recording) -> bool:
    newest = {frame["task"]: frame["status"]["state"] for frame in run.frames}
    return len(newest) == len(TASKS) and set(newest.values()) == {"exited"}


def function_time(run: Recording, index: int) -> float:
    """Return the mean seconds of all functions but the first, in which the graph is traced."""
    told = [frame["coordinator"]["workers"][index] for frame in frames(run, "chief:0") if frame["coordinator"]]
    first = next(each for each in told if each["finished"])
    finished = told[-1]["finished"] - first["finished"]
    return float((told[-1]["busy"] - first["busy"]) / finished)


def assert_measured(run: Recording, subject: str, steps: int) -> None:
    """Require that every phase is known, except for `reduce`, which there is none of, and that they add up."""
    columns = run.steps[subject]
    assert columns["sequence"] == list(range(steps))
    assert set(columns["reduce"]) == {None}
    for phase in ("update", "host", "input", "compute"):
        assert all(value is not None and value >= 0 for value in columns[phase][1:]), phase
    whole = [sum(columns[phase][row] for phase in ("update", "host", "input", "compute")) for row in range(1, steps)]
    apart = [after - before for before, after in zip(columns["end"], columns["end"][1:], strict=False)]
    assert statistics.median(whole) == pytest.approx(statistics.median(apart), rel=0.05)


@pytest.mark.tensorflow
def test_a_slow_worker_shows_in_its_own_functions_and_servers_end_with_their_chief(tmp_path: Path) -> None:
    with running(tmp_path, "schedule", "--steps", "800", "--slow", "0.06") as cluster:
        run = cluster.wait_for(lambda run: has_ended(run) and run)
    assert status(run, "chief:0")["exit"]["code"] == 0, (run_files(tmp_path) / "chief-0.log").read_text()[-3000:]
    for task in ("worker:0", "worker:1", "ps:0", "ps:1"):
        assert (status(run, task)["exit"]["requested"], status(run, task)["reason"]) == (True, "chief:0 has finished")
    counts = [functions(run, index)["finished"] for index in range(2)]
    assert sum(counts) == 800
    for index in range(2):
        assert_measured(run, f"worker:{index}", counts[index])
        for traffic in functions(run, index)["traffic"]:
            for moved in (traffic["pulled"], traffic["pushed"]):
                assert 0 <= moved - SHARD * counts[index] <= SCALARS * counts[index]
    assert function_time(run, 1) - function_time(run, 0) == pytest.approx(0.06, rel=0.2)
    assert run.median("worker:1", "compute") - run.median("worker:0", "compute") == pytest.approx(0.06, rel=0.2)
    assert set(run.steps) == {"worker:0", "worker:1"}
    probe = [frame["probe"] for frame in frames(run, "chief:0") if frame["probe"]][-1]
    assert (probe["strategy"], probe["state"]) == ("ParameterServerStrategy", "measuring")
    assert probe["examples_per_step"] == 16
    assert all(frame["coordinator"] is None for frame in frames(run, "worker:0"))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_each_step_of_a_fit_is_told_also_where_a_function_is_two(tmp_path: Path) -> None:
    with running(tmp_path, "fit", "--steps", "200") as cluster:
        run = cluster.wait_for(lambda run: has_ended(run) and run)
    assert status(run, "chief:0")["exit"]["code"] == 0
    counts = [functions(run, index)["finished"] for index in range(2)]
    assert sum(counts) == 100 and min(counts) > 20
    for index in range(2):
        assert_measured(run, f"worker:{index}", 2 * counts[index])
    training = [frame["training"] for frame in frames(run, "chief:0") if frame["training"]][-1]
    assert training["epoch"] == 1


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_worker_that_dies_or_stops_is_seen_and_comes_back_alone(tmp_path: Path) -> None:
    with running(tmp_path, "schedule", "--steps", "1000000") as cluster:
        before = pids(cluster, "chief:0", "worker:0", "ps:0", "ps:1")
        lose_a_worker(cluster)
        stop_a_worker(cluster)
        assert pids(cluster, *before) == before


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_chief_starts_anew_with_a_lost_server_or_by_itself(tmp_path: Path) -> None:
    with running(tmp_path, "schedule", "--steps", "1000000") as cluster:
        before = pids(cluster, "worker:0", "worker:1", "ps:1")
        lose_a_server(cluster)
        lose_the_chief(cluster)
        assert pids(cluster, *before) == before


def pids(cluster: Cluster, *tasks: str) -> dict[str, int]:
    """Return the process ids of these tasks, once both workers are at work."""
    run = cluster.wait_for(lambda run: min(functions(run, index)["finished"] for index in range(2)) > 20 and run)
    return {task: status(run, task)["pid"] for task in tasks}


def lose_a_worker(cluster: Cluster) -> None:
    """Kill a worker: the other one goes on, and so does this one after its restart."""
    cluster.send("worker:1", signal.SIGKILL)
    cluster.wait_for(lambda run: (status(run, "worker:1")["exit"] or {}).get("signal") == signal.SIGKILL)
    lost = cluster.wait_for(lambda run: functions(run, 1)["failed"] and run)
    cluster.wait_for(lambda run: functions(run, 0)["finished"] > functions(lost, 0)["finished"] + 50)
    known = len(lost.steps["worker:1"]["sequence"])
    assert cluster.restart("worker:1") == {"worker:1"}
    cluster.wait_for(lambda run: functions(run, 1)["finished"] > functions(lost, 1)["finished"] + 50)
    run = cluster.wait_for(lambda run: len(run.steps["worker:1"]["sequence"]) > known + 50 and run)
    columns = run.steps["worker:1"]
    assert columns["update"][known] is None and columns["host"][known] is None
    for phase in ("update", "host", "input", "compute"):
        assert all(value is not None for value in columns[phase][known + 1 :]), phase


def stop_a_worker(cluster: Cluster) -> None:
    """Stop a worker: it is named by the age of its function, and goes on when it may."""
    cluster.send("worker:0", signal.SIGSTOP)
    owed = cluster.wait_for(lambda run: run.told("hang") and run)
    assert {each["subject"] for each in owed.told("hang")} == {"worker:0"}
    assert owing(owed, 0) > 10
    cluster.send("worker:0", signal.SIGCONT)
    cluster.wait_for(lambda run: functions(run, 0)["finished"] > functions(owed, 0)["finished"] + 20)


def lose_a_server(cluster: Cluster) -> None:
    """Kill a server: the chief ends, and both start again."""
    cluster.send("ps:0", signal.SIGKILL)
    cluster.wait_for(lambda run: (status(run, "chief:0")["exit"] or {}).get("code") == 1)
    assert status(cluster.read(), "ps:1")["state"] == status(cluster.read(), "worker:0")["state"] == "running"
    assert cluster.restart("ps:0") == {"chief:0", "ps:0"}
    cluster.wait_for(lambda run: status(run, "chief:0")["state"] == "running" and functions(run, 0)["finished"] > 20)


def lose_the_chief(cluster: Cluster) -> None:
    """Kill the chief: workers and servers wait for the next one."""
    cluster.send("chief:0", signal.SIGKILL)
    cluster.wait_for(lambda run: status(run, "chief:0")["state"] == "exited")
    assert cluster.restart("chief:0") == {"chief:0"}
    cluster.wait_for(lambda run: status(run, "chief:0")["state"] == "running" and functions(run, 1)["finished"] > 20)


def owing(run: Recording, index: int) -> float:
    """Return the seconds for which a worker has not answered."""
    told = [frame["coordinator"] for frame in frames(run, "chief:0") if frame["coordinator"]][-1]
    since = told["workers"][index]["since"]
    return 0.0 if since is None else float(told["at"] - since)
