"""The Python stack of a real task that hangs, while another one waits for it in the all-reduce."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_cluster import run_files, running, wait_until, write_cluster

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "stuck.py"


def stack(cluster: Path, task: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfscale.console.cli", "stack", task, "--cluster", str(cluster)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.tensorflow
def test_the_stack_of_a_stuck_task_names_the_line(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 2)
    with running(tmp_path, cluster, 2, [sys.executable, PROGRAM], {}):
        log = run_files(tmp_path) / "worker-1.log"
        wait_until(lambda: log.exists() and "hangs" in log.read_text())
        until = time.monotonic() + 90
        while "in hang" not in (stuck := stack(cluster, "worker:1")).stdout:
            assert time.monotonic() < until, (stuck.stdout, stuck.stderr)
            time.sleep(0.5)
        main = stuck.stdout.partition("\n\n")[0]
        assert main.startswith("Main thread") and "stuck.py" in main and "in on_train_batch_end" in main
        waiting = stack(cluster, "worker:0").stdout.partition("\n\n")[0]
        assert "in fit" in waiting and "in hang" not in waiting
        unknown = stack(cluster, "worker:7")
        assert unknown.returncode == 2 and unknown.stderr.count("\n") == 1 and "worker:7" in unknown.stderr
