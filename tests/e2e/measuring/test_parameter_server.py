"""A chief, two workers and two parameter servers under agents: measured from the chief alone, and mended in parts."""

from __future__ import annotations

import os
import signal
import statistics
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from local_cluster import run_files
from recording import Recording
from task_cluster import WatchedCluster, watched
from tfscale.v1 import agent_pb2

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "parameter_server.py"
ROLES = {"ps": 2, "worker": 2, "chief": 1}
SHARD = 32 * 32 * 4
"""Bytes of one server's half of the only weights."""
SCALARS = 40
"""Bytes, at most, that a step exchanges with one server besides: counters, and the sums of metrics."""


def running(folder: Path, *arguments: str) -> AbstractContextManager[WatchedCluster]:
    command = [sys.executable, PROGRAM, *arguments]
    return watched(folder, command, ROLES, {"TF_NUM_INTRAOP_THREADS": "1"})


def send(cluster: WatchedCluster, task: str, number: signal.Signals) -> None:
    os.kill(cluster.read().status(task)["pid"], number)


def restarted(cluster: WatchedCluster, task: str) -> set[str]:
    """Ask the lead to restart a task; return the tasks that it restarted."""
    told = cluster.restart(task)
    assert told[-1].stage == agent_pb2.STAGE_DONE
    return set(told[0].tasks)


def functions(run: Recording, index: int) -> dict[str, Any]:
    """Return the chief's newest report, in its newest attempt, of the functions of one worker."""
    generation = run.status("chief:0")["generation"] if run.frames_of("chief:0") else 0
    told = [frame for frame in run.frames_of("chief:0") if frame["status"]["generation"] == generation]
    workers = [frame["coordinator"]["workers"] for frame in told if frame["coordinator"]]
    newest: dict[str, Any] = workers[-1][index] if workers else {"finished": 0, "failed": 0, "since": None}
    return newest


def has_ended(run: Recording, steps_each: int = 1) -> bool:
    """Return whether all tasks have ended, and all steps of the workers' functions have come."""
    if len(run.exited) < sum(ROLES.values()):
        return False
    steps = [len(run.steps.get(f"worker:{index}", {"sequence": ()})["sequence"]) for index in range(2)]
    return all(number >= steps_each * functions(run, index)["finished"] for index, number in enumerate(steps))


def function_time(run: Recording, index: int) -> float:
    """Return the mean seconds of all functions but the first, in which the graph is traced."""
    told = [frame["coordinator"]["workers"][index] for frame in run.frames_of("chief:0") if frame["coordinator"]]
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
    assert run.status("chief:0")["exit"]["code"] == 0, (run_files(tmp_path) / "chief-0.log").read_text()[-3000:]
    for task in ("worker:0", "worker:1", "ps:0", "ps:1"):
        assert (run.status(task)["exit"]["requested"], run.status(task)["reason"]) == (True, "chief:0 has finished")
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
    probe = [frame["probe"] for frame in run.frames_of("chief:0") if frame["probe"]][-1]
    assert (probe["strategy"], probe["state"]) == ("ParameterServerStrategy", "measuring")
    assert probe["examples_per_step"] == 16
    assert all(frame["coordinator"] is None for frame in run.frames_of("worker:0"))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_each_step_of_a_fit_is_told_also_where_a_function_is_two(tmp_path: Path) -> None:
    with running(tmp_path, "fit", "--steps", "200") as cluster:
        run = cluster.wait_for(lambda run: has_ended(run, steps_each=2) and run)
    assert run.status("chief:0")["exit"]["code"] == 0
    counts = [functions(run, index)["finished"] for index in range(2)]
    assert sum(counts) == 100 and min(counts) > 20
    for index in range(2):
        assert_measured(run, f"worker:{index}", 2 * counts[index])
    training = [frame["training"] for frame in run.frames_of("chief:0") if frame["training"]][-1]
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


def pids(cluster: WatchedCluster, *tasks: str) -> dict[str, int]:
    """Return the process ids of these tasks, once both workers are at work."""
    run = cluster.wait_for(lambda run: min(functions(run, index)["finished"] for index in range(2)) > 20 and run)
    return {task: run.status(task)["pid"] for task in tasks}


def lose_a_worker(cluster: WatchedCluster) -> None:
    """Kill a worker: the other one goes on, and so does this one after its restart."""
    send(cluster, "worker:1", signal.SIGKILL)
    cluster.wait_for(lambda run: (run.status("worker:1")["exit"] or {}).get("signal") == signal.SIGKILL)
    lost = cluster.wait_for(lambda run: functions(run, 1)["failed"] and run)
    cluster.wait_for(lambda run: functions(run, 0)["finished"] > functions(lost, 0)["finished"] + 50)
    known = len(lost.steps["worker:1"]["sequence"])
    assert restarted(cluster, "worker:1") == {"worker:1"}
    cluster.wait_for(lambda run: functions(run, 1)["finished"] > functions(lost, 1)["finished"] + 50)
    run = cluster.wait_for(lambda run: len(run.steps["worker:1"]["sequence"]) > known + 50 and run)
    columns = run.steps["worker:1"]
    assert columns["update"][known] is None and columns["host"][known] is None
    for phase in ("update", "host", "input", "compute"):
        assert all(value is not None for value in columns[phase][known + 1 :]), phase


def stop_a_worker(cluster: WatchedCluster) -> None:
    """Stop a worker: it is named by the age of its function, and goes on when it may."""
    send(cluster, "worker:0", signal.SIGSTOP)
    owed = cluster.wait_for(lambda run: run.told("hang") and run)
    assert {each["subject"] for each in owed.told("hang")} == {"worker:0"}
    assert owing(owed, 0) > 10
    send(cluster, "worker:0", signal.SIGCONT)
    cluster.wait_for(lambda run: functions(run, 0)["finished"] > functions(owed, 0)["finished"] + 20)


def lose_a_server(cluster: WatchedCluster) -> None:
    """Kill a server: the chief ends, and both start again."""
    send(cluster, "ps:0", signal.SIGKILL)
    cluster.wait_for(lambda run: (run.status("chief:0")["exit"] or {}).get("code") == 1)
    assert cluster.read().status("ps:1")["state"] == cluster.read().status("worker:0")["state"] == "running"
    assert restarted(cluster, "ps:0") == {"chief:0", "ps:0"}
    cluster.wait_for(lambda run: run.status("chief:0")["state"] == "running" and functions(run, 0)["finished"] > 20)


def lose_the_chief(cluster: WatchedCluster) -> None:
    """Kill the chief: workers and servers wait for the next one."""
    send(cluster, "chief:0", signal.SIGKILL)
    cluster.wait_for(lambda run: run.status("chief:0")["state"] == "exited")
    assert restarted(cluster, "chief:0") == {"chief:0"}
    cluster.wait_for(lambda run: run.status("chief:0")["state"] == "running" and functions(run, 1)["finished"] > 20)


def owing(run: Recording, index: int) -> float:
    """Return the seconds for which a worker has not answered."""
    told = [frame["coordinator"] for frame in run.frames_of("chief:0") if frame["coordinator"]][-1]
    since = told["workers"][index]["since"]
    return 0.0 if since is None else float(told["at"] - since)
