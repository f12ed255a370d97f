"""TensorFlow's profile of a real task, taken while it trains with another one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_cluster import run_files, running, wait_until, write_cluster

PROGRAM = Path(__file__).parents[1] / "programs" / "endless.py"
READ = """
import json, sys
from tensorflow.tsl.profiler.protobuf import xplane_pb2
space = xplane_pb2.XSpace.FromString(open(sys.argv[1], "rb").read())
print(json.dumps([[each.name for each in plane.event_metadata.values()] for plane in space.planes]))
"""


def console(*words: str, cluster: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfscale.console.cli", *words, "--cluster", str(cluster)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def ops(file: str) -> set[str]:
    """Return the names of all events in an XSpace, read by TensorFlow's own messages."""
    found = subprocess.run([sys.executable, "-c", READ, file], capture_output=True, text=True, check=True)
    return {name for plane in json.loads(found.stdout) for name in plane}


# The other worker is not asked: TensorFlow's profiler ends it (docs/reference/cost.md).
@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_profile_of_a_training_task_holds_its_ops_and_the_task_goes_on(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, 2)
    with running(tmp_path, cluster, 2, [sys.executable, PROGRAM, tmp_path], {}):
        # Consoles that ask while TensorFlow is being loaded would only take its cores.
        wait_until(lambda: any((tmp_path / "worker:0").rglob("*")))
        until = time.monotonic() + 90
        while (taken := console("profile", "worker:0", "--seconds", "1", "--yes", cluster=cluster)).returncode:
            assert time.monotonic() < until, taken.stderr
            time.sleep(1.0)
        folder = run_files(tmp_path) / "profiles" / "worker-0"
        file = Path(taken.stdout.strip())
        assert file.match("plugins/profile/*/*.xplane.pb") and file.is_relative_to(folder)
        assert "capturing for 1 s" in taken.stderr and f"tensorboard --logdir {folder}" in taken.stderr
        refused = console("profile", "worker:0", "--seconds", "1000", "--yes", cluster=cluster)
        assert refused.returncode == 1 and "at most 60" in refused.stderr
        frames = console("--headless", "--only", "frames", "--seconds", "2", cluster=cluster).stdout.splitlines()
    newest = [frame for line in frames if (frame := json.loads(line)).get("task") == "worker:0"][-1]
    assert newest["status"]["attempt"] == 1 and newest["status"]["state"] == "running"
    assert 0 <= newest["time"] - newest["probe"]["checkpoint"] < 30
    names = ops(str(file))
    kernels = {name.rpartition(":")[2].partition(" ")[0] for name in names}
    # On some processors oneDNN puts its own in the place of MatMul: _MklNativeFusedMatMul.
    assert "CollectiveReduceV2" in kernels and any(kernel.endswith("MatMul") for kernel in kernels), names
