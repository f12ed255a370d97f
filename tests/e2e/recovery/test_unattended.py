"""Trainings on hosts of their own whose tasks are killed each minute, or whose host is lost: nobody attends to them."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import net_hosts
import numpy as np
import pytest
from local_cluster import wait_until
from recovery.unattended_run import UnattendedRun, unattended

pytestmark = [
    pytest.mark.alone,
    pytest.mark.matrix,
    pytest.mark.tensorflow,
    pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing()),
]
MINUTE = 60.0
EPOCHS = 240
SECONDS = "1.0"
"""Seconds of each epoch, so that five minutes are not enough for all of them."""


def kill_each_minute(run: UnattendedRun, tasks: list[str], trains: str) -> None:
    """Kill these tasks, one each minute of the run; each must have been trained since the one before."""
    wait_until(lambda: len(run.epochs(trains)) >= 2)
    for task in tasks:
        before = len(run.epochs(trains))
        time.sleep(MINUTE)
        assert len(run.epochs(trains)) > before, f"nothing was trained before {task} is killed"
        run.kill(task)


def assert_buckets_fill_the_run(report: dict[str, Any]) -> None:
    (group,) = report["runs"]
    assert sum(group["spent"].values()) == pytest.approx(group["end"] - group["begin"], rel=0.02)
    assert group["spent"]["recovery"] > 0


def test_three_workers_of_which_one_is_killed_each_minute_end_as_undisturbed(tmp_path: Path) -> None:
    with unattended(tmp_path / "calm", {"worker": 3}, ["backed_up.py", str(EPOCHS), "0"]) as calm:
        assert set(calm.ended(240).values()) == {0}
    killed = ["worker:1", "worker:0", "worker:2", "worker:0", "worker:1"]
    with unattended(tmp_path / "killed", {"worker": 3}, ["backed_up.py", str(EPOCHS), SECONDS]) as run:
        kill_each_minute(run, killed, "worker:0")
        assert run.ended(400) == dict.fromkeys(run.tasks, 0)
        told = run.said("worker:0")
        report = run.report()
    for task in killed:
        assert f"restarted by itself after {task} was killed by SIGKILL" in told
    for task in run.tasks:
        assert [epoch for _, epoch in calm.epochs(task)] == list(range(EPOCHS))
        made = run.epochs(task)
        assert {epoch for _, epoch in made} == set(range(EPOCHS)) and len({process for process, _ in made}) == 6
        assert len(made) <= EPOCHS + len(killed), "no more than an epoch was made again after each"
        name = f"{task.replace(':', '-')}.npy"
        assert np.allclose(np.load(run.folder / name), np.load(calm.folder / name), rtol=1e-4)
    assert_buckets_fill_the_run(report)


def test_servers_of_which_one_task_is_killed_each_minute_reach_their_last_epoch(tmp_path: Path) -> None:
    roles = {"chief": 1, "worker": 2, "ps": 1}
    killed = ["worker:1", "ps:0", "chief:0", "worker:0", "ps:0"]
    with unattended(tmp_path, roles, ["backed_up_servers.py", str(EPOCHS), SECONDS]) as run:
        kill_each_minute(run, killed, "chief:0")
        assert run.ended(400) == dict.fromkeys(run.tasks, 0)
        report = run.report()
    made = run.epochs("chief:0")
    assert {epoch for _, epoch in made} == set(range(EPOCHS))
    # A worker restarts alone; with a server, the chief does.
    assert len({process for process, _ in made}) == 4
    assert len(made) <= EPOCHS + 3
    assert_buckets_fill_the_run(report)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the weights of 40 epochs of three workers that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with unattended(folder, {"worker": 3}, ["backed_up.py", "40", "0"]) as run:
        assert set(run.ended(240).values()) == {0}
    return np.load(folder / "worker-0.npy")


@pytest.mark.parametrize("stage", ["stopping", "starting"])
def test_a_restart_whose_lead_is_cut_off_costs_two_minutes_and_no_step(
    tmp_path: Path, undisturbed: Any, stage: str
) -> None:
    recovery, words = 'policy = "ExitCode"\nreplace_after = "5s"', ["backed_up.py", "40", "0.5"]
    with unattended(tmp_path, {"worker": 3}, words, spares=1, recovery=recovery) as run:
        wait_until(lambda: len(run.epochs("worker:0")) >= 5)
        told = len(run.said("worker:0"))
        with run.console_command("restart", "worker:1", "--yes", stderr=subprocess.DEVNULL) as restart:
            wait_until(lambda: f"{stage} worker:2" in run.said("worker:0")[told:], patience=20)
            run.cut_host("worker:0")
            restart.kill()
        began, before = time.monotonic(), len(run.epochs("worker:0"))
        wait_until(lambda: len(run.epochs("worker:0")) > before, patience=4 * MINUTE)
        took = time.monotonic() - began
        print(f"cut off while {stage}: trains on after {took:.0f} s")
        assert [run.agents[seat].wait(180) for seat in ("worker:1", "worker:2", "spare:0")] == [0, 0, 0]
    for task in run.tasks:
        made = run.epochs(task)
        assert {epoch for _, epoch in made} == set(range(40)) and len(made) <= 41
        weights = np.load(tmp_path / f"{task.replace(':', '-')}.npy")
        assert np.allclose(weights, undisturbed, rtol=1e-4)
    assert took < 2 * MINUTE


def test_a_spare_takes_the_task_of_a_lost_host(tmp_path: Path) -> None:
    recovery = 'policy = "ExitCode"\nreplace_after = "5s"'
    with unattended(tmp_path, {"worker": 3}, ["backed_up.py", "60", "0.5"], spares=1, recovery=recovery) as run:
        wait_until(lambda: len(run.epochs("worker:0")) >= 5)
        run.lose_host("worker:2")
        assert [run.agents[seat].wait(180) for seat in ("worker:0", "worker:1", "spare:0")] == [0, 0, 0]
        report = run.report()
    for task in run.tasks:
        made = run.epochs(task)
        assert {epoch for _, epoch in made} == set(range(60)) and len({process for process, _ in made}) == 2
        assert len(made) <= 61
    said = json.dumps(report)
    assert "worker:2's host was not heard any more from" in said and "and worker:2 was placed on another at" in said
    assert "worker:2's network was gone from" not in said, "nobody knows of the dead host that it is back"
    assert_buckets_fill_the_run(report)


def test_a_training_goes_on_with_fewer_workers_and_grows_back(tmp_path: Path) -> None:
    recovery = 'policy = "ExitCode"\nreplace_after = "5s"\nmin_workers = 2'
    with unattended(tmp_path, {"worker": 3}, ["backed_up.py", "120", "0.5"], recovery=recovery) as run:
        wait_until(lambda: len(run.epochs("worker:0")) >= 5)
        run.lose_host("worker:1")
        with_three = run.epochs("worker:0")[-1][0]
        wait_until(lambda: run.epochs("worker:0")[-1][0] != with_three)
        run.find_host("worker:1")
        assert run.ended(240) == dict.fromkeys(run.tasks, 0)
        report = run.report()
    processes = {task: len({process for process, _ in run.epochs(task)}) for task in run.tasks}
    assert processes == {"worker:0": 3, "worker:1": 3, "worker:2": 2}
    assert {epoch for _, epoch in run.epochs("worker:0")} == set(range(120))
    assert_buckets_fill_the_run(report)


def test_a_training_goes_on_after_the_network_was_cut(tmp_path: Path) -> None:
    recovery = 'policy = "ExitCode"\non_hang = "restart"'
    with unattended(tmp_path, {"worker": 3}, ["backed_up.py", "60", "0.5"], recovery=recovery) as run:
        wait_until(lambda: len(run.epochs("worker:0")) >= 5)
        run.cut_host("worker:2")
        time.sleep(40)
        run.join_host("worker:2")
        assert run.ended(240) == dict.fromkeys(run.tasks, 0)
    for task in run.tasks:
        assert {epoch for _, epoch in run.epochs(task)} == set(range(60))
