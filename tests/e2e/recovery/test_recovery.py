"""Recovery without anybody: real workers of MultiWorkerMirroredStrategy, one of which is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import run_files, start_agent, wait_until, write_cluster
from tfscale.agent.supervision.shim_state import read_state

PROGRAM = Path(__file__).parents[1] / "programs" / "backed_up.py"
EAR = Path(__file__).parents[1] / "incidents" / "ear.py"
RECOVERS = re.compile(r"worker:1 was killed by SIGKILL|no step for .* worker:1 was killed by SIGKILL|recovering, ")
EPOCHS = 12
VARIABLES = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}


def epochs(folder: Path, index: int) -> list[tuple[int, int]]:
    """Return (process, epoch) of each epoch that the worker has made."""
    path = folder / f"worker-{index}.epochs"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(process), int(epoch)) for process, epoch in map(str.split, lines)]


def watch(folder: Path, cluster: Path) -> subprocess.Popen[bytes]:
    """Start a console that writes down what its screen says each second, as `heard` reads it."""
    words = ["--cluster", cluster, "--headless", "--insecure", "--out", os.devnull]
    own = {"HEARD": str(folder / "heard"), "XDG_STATE_HOME": str(folder)}
    return subprocess.Popen([sys.executable, EAR, *words], env=os.environ | own)


def heard(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "heard").read_text().splitlines()]


def assert_the_recovery_was_told(said: list[dict[str, str]]) -> None:
    """Require that each second from the kill to the first new step told of it, and advised no restart."""
    killed = next(row for row, each in enumerate(said) if "was killed by SIGKILL" in each["sentence"])
    last = max(row for row, each in enumerate(said) if each["sentence"].startswith("recovering, "))
    seconds = said[killed : last + 1]
    assert [each for each in seconds if not RECOVERS.match(each["sentence"]) or "restart" in each["advice"]] == []
    assert "step" in said[last + 1]["sentence"]
    why = "after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h; the newest checkpoint is of "
    assert why in said[last]["sentence"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_training_whose_worker_is_killed_goes_on_from_its_checkpoint_unattended(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 3)
    cluster.write_text(cluster.read_text() + '\n[recovery]\npolicy = "ExitCode"\n')
    command = [sys.executable, PROGRAM, tmp_path, str(EPOCHS)]
    logs = [(tmp_path / f"agent-{index}.log").open("wb") for index in range(3)]
    agents: list[subprocess.Popen[bytes]] = [
        start_agent(tmp_path, cluster, index, command, VARIABLES, more=["--exit-with-task"], said=log.fileno())
        for index, log in enumerate(logs)
    ]
    console = watch(tmp_path, cluster)
    try:
        wait_until(lambda: len(epochs(tmp_path, 1)) >= 4)
        state = read_state(run_files(tmp_path) / "worker-1.state.json")
        assert state is not None and state.task_pid is not None
        os.kill(state.task_pid, signal.SIGKILL)
        assert [agent.wait(120) for agent in agents] == [0, 0, 0]
    finally:
        console.terminate()
        console.wait()
        for agent in agents:
            agent.kill()
        for log in logs:
            log.close()
    assert_the_recovery_was_told(heard(tmp_path))
    told = (tmp_path / "agent-0.log").read_text()
    why = "restarted by itself after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h"
    assert told.count(f"planned worker:0, worker:1, worker:2: {why}") == 1 and "generation 3" not in told
    for index in range(3):
        made = epochs(tmp_path, index)
        first, last = made[0][0], made[-1][0]
        before, after = ([epoch for process, epoch in made if process == each] for each in (first, last))
        assert first != last and {process for process, _ in made} == {first, last}
        assert before[0] == 0 and after[-1] == EPOCHS - 1
        assert max(0, before[-1] - 1) <= after[0] <= before[-1] + 1, "it goes on where it was, at most an epoch back"
