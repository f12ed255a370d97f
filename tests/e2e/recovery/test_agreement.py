"""Agents on hosts that do not reach each other: one gang, each role once, and each command finished."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import net_hosts
import pytest
from local_cluster import wait_until
from recovery.held_roles import held, is_whole, taken_twice
from recovery.unattended_run import UnattendedRun, unattended

pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing()),
]
RECOVERY = 'policy = "OnFailure"\nbackoff = "1s"\nreplace_after = "5s"'
TASKS = ["worker:0", "worker:1", "worker:2"]
IN_TIME = 5.0 + 30.0
"""Seconds in which a fault is mended: `replace_after`, and half a minute."""
ENDING = "1.5"
"""Seconds for which a stop lasts."""
CALM = 20.0
"""Seconds after which nobody begins anything more: the lead's agent looks every 10 s."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[UnattendedRun]:
    with unattended(tmp_path, {"worker": 3}, ["held_role.py", ENDING], spares=1, recovery=RECOVERY) as run:
        wait_until(lambda: is_whole(tmp_path, TASKS), patience=60)
        time.sleep(4)  # the start counts as done
        yield run
        assert taken_twice(tmp_path) == []


def generation(folder: Path) -> int:
    return max(role.generation for role in held(folder))


def whole(run: UnattendedRun, newer_than: int = 0) -> Callable[[], bool]:
    return lambda: is_whole(run.folder, TASKS, newer_than)


def is_calm(run: UnattendedRun) -> bool:
    """Return whether one whole gang stays as it is."""
    before = held(run.folder)
    time.sleep(CALM)
    return is_whole(run.folder, TASKS) and {role.pid for role in before} == {role.pid for role in held(run.folder)}


def test_a_lead_that_is_cut_off_in_a_restart_starts_nothing_and_comes_back_as_a_spare(run: UnattendedRun) -> None:
    before = generation(run.folder)
    told = len(run.said("worker:0"))
    with run.console_command("restart", "worker:1", "--yes", stdout=subprocess.DEVNULL) as restart:
        wait_until(lambda: "stopping worker:2" in run.said("worker:0")[told:], patience=20)
        run.cut_host("worker:0")
        restart.kill()
    began = time.monotonic()
    wait_until(lambda: is_whole(run.folder, TASKS, before + 1), patience=IN_TIME + 20)
    print(f"mended after {time.monotonic() - began:.1f} s")
    run.join_host("worker:0")
    assert is_calm(run)


def test_of_two_agents_that_would_lead_one_does(run: UnattendedRun) -> None:
    net_hosts.cut(run.seats.index("worker:0"), run.seats.index("worker:1"))
    before = generation(run.folder)
    run.kill("worker:2")
    time.sleep(30)
    for seat in ("worker:0", "worker:1"):
        run.join_host(seat)
    wait_until(whole(run, before), patience=IN_TIME)
    assert is_calm(run)


def test_a_host_that_boots_before_its_network_does_not_take_a_task_that_sits_elsewhere_now(run: UnattendedRun) -> None:
    before = generation(run.folder)
    run.lose_host("worker:1")
    run.kill("worker:2")
    wait_until(whole(run, before), patience=IN_TIME)
    moved = generation(run.folder)
    run.start_agent("worker:1")
    time.sleep(25)  # longer than a task waits for the lead's agent
    assert is_whole(run.folder, TASKS) and generation(run.folder) == moved
    run.join_host("worker:1")
    assert is_calm(run)
    assert "holds no task, and waits for one" in run.said("worker:1")
