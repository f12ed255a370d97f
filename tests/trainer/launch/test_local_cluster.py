"""Clusters on this machine: real agents, with tasks that are no trainings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import commands_with, wait_until
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.task import Role, Task
from tfscale.trainer.launch.local_cluster import local_cluster, uninterrupted

WITH_TASK = ["--exit-with-task"]


def test_the_cluster_has_ended_when_its_tasks_have(tmp_path: Path) -> None:
    # A lead that has ended before the other agent asks it for a start would be waited for.
    command = [sys.executable, "-c", "import os, time; print(os.environ['TFSCALE_TASK']); time.sleep(1)"]
    with local_cluster(tmp_path, "short", tasks={"worker": 2}, command=command, flags=WITH_TASK) as cluster:
        assert cluster.wait() is None
        logs = [cluster.task_log(task) for task in cluster.agents]
        assert [log.splitlines()[1] for log in logs] == [b"worker:0", b"worker:1"]
        assert cluster.task_log(next(iter(cluster.agents)), len(logs[0]) - 5) == logs[0][-5:]


def test_all_agents_can_be_reached_when_the_block_is_entered(tmp_path: Path) -> None:
    with local_cluster(
        tmp_path, "served", tasks={"worker": 3}, command=[sys.executable, "-c", "import time; time.sleep(600)"]
    ) as cluster:
        for address in load_cluster(cluster.path).agents.values():
            socket.create_connection((address.host, address.port)).close()


def test_a_task_that_fails_is_told_while_others_run(tmp_path: Path) -> None:
    script = "import os, sys, time; sys.exit(3) if os.environ['TFSCALE_TASK'] == 'worker:1' else time.sleep(600)"
    with local_cluster(
        tmp_path, "fails", tasks={"worker": 2}, command=[sys.executable, "-c", script], flags=WITH_TASK
    ) as cluster:
        failed = cluster.wait()
        assert failed == Task(Role.WORKER, 1) and cluster.agents[failed].poll() == 3


def test_ctrl_c_waits_until_an_agent_that_is_being_started_is_known() -> None:
    went_on = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        went_on = True
    assert went_on and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("lead", "tasks"),
    [("chief:0", {"chief": 1, "worker": 1, "ps": 1}), ("worker:0", {"worker": 1, "dispatcher": 1, "dataworker": 1})],
)
def test_servers_do_not_have_to_end_and_no_process_stays(lead: str, tasks: dict[str, int], tmp_path: Path) -> None:
    script = f"import os, time; time.sleep(1 if os.environ['TFSCALE_TASK'] == '{lead}' else 600)"
    with local_cluster(
        tmp_path, "serving", tasks=tasks, command=[sys.executable, "-c", script], flags=WITH_TASK
    ) as cluster:
        assert cluster.ending == [Task.parse(lead)]
        assert cluster.wait() is None
    wait_until(lambda: not commands_with(str(tmp_path)))


def test_a_server_that_ends_well_before_whom_it_serves_has_failed(tmp_path: Path) -> None:
    script = "import os, time; os.environ['TFSCALE_TASK'] == 'ps:0' or time.sleep(600)"
    tasks = {"chief": 1, "worker": 1, "ps": 1}
    with local_cluster(
        tmp_path, "gone", tasks=tasks, command=[sys.executable, "-c", script], flags=WITH_TASK
    ) as cluster:
        assert cluster.wait() == Task(Role.PS, 0)


_STARTS = """
import sys
from tfscale.trainer.launch.local_cluster import local_cluster, run_folder

command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
cluster = {"tasks": {"worker": 2}, "command": command}
with run_folder() as (folder, held), local_cluster(folder, "killed", **cluster, held=[held]) as cluster:
    while not all(b"begun" in cluster.task_log(task) for task in cluster.agents):
        pass
    print(folder, flush=True)
    cluster.wait()
"""


def test_nothing_stays_of_a_cluster_whose_starter_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTS], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        folder = starter.stdout.readline().strip()
        starter.kill()
    wait_until(lambda: not Path(folder).exists() and not commands_with(folder))
