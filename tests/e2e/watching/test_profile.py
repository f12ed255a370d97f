"""TensorFlow's profile of a real task, taken while it trains with another one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_cluster import run_files, running, wait_until, write_cluster
from traces.trace_processor import opened

PROGRAM = Path(__file__).parents[1] / "programs" / "endless.py"
READ = """
import json, sys
from tensorflow.tsl.profiler.protobuf import xplane_pb2
space = xplane_pb2.XSpace.FromString(open(sys.argv[1], "rb").read())
print(json.dumps([[each.name for each in plane.event_metadata.values()] for plane in space.planes]))
"""

REDUCED = """
    WITH reduce AS (
        SELECT ts, ts + dur AS end FROM slice JOIN track ON track_id = track.id
        WHERE slice.name = 'reduce' AND track.name LIKE 'worker:0 %'
    )
    SELECT count(*) AS ops, sum(EXISTS (
        SELECT 1 FROM reduce WHERE slice.ts >= reduce.ts - 5000000 AND slice.ts <= reduce.end + 5000000
    )) AS within
    FROM slice JOIN track ON track_id = track.id
    WHERE slice.name = 'CollectiveReduceV2' AND track.name LIKE 'profile: %'
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
        words = ["--headless", "--only", "events", "--record", tmp_path / "run.tfrec", "--cluster", cluster]
        recorder = subprocess.Popen([sys.executable, "-m", "tfscale.console.cli", *words], stdout=subprocess.DEVNULL)
        fetched = console(
            "profile", "worker:0", "--seconds", "1", "--yes", "--out", str(tmp_path / "here"), cluster=cluster
        )
        (here,) = (tmp_path / "here").glob("plugins/profile/*/worker-0.xplane.pb")
        assert fetched.returncode == 0 and fetched.stdout == f"{here}\n" and "CollectiveReduceV2" in str(ops(str(here)))
        refused = console("profile", "worker:0", "--seconds", "1000", "--yes", cluster=cluster)
        assert refused.returncode == 1 and "at most 60" in refused.stderr
        frames = console("--headless", "--only", "frames", "--seconds", "2", cluster=cluster).stdout.splitlines()
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(60) == 0
    newest = [frame for line in frames if (frame := json.loads(line)).get("task") == "worker:0"][-1]
    assert newest["status"]["attempt"] == 1 and newest["status"]["state"] == "running"
    assert 0 <= newest["time"] - newest["probe"]["checkpoint"] < 30
    names = ops(str(file))
    kernels = {name.rpartition(":")[2].partition(" ")[0] for name in names}
    # On some processors oneDNN puts its own in the place of MatMul: _MklNativeFusedMatMul.
    assert "CollectiveReduceV2" in kernels and any(kernel.endswith("MatMul") for kernel in kernels), names
    trace = tmp_path / "run.pftrace"
    export = [sys.executable, "-m", "tfscale.console.cli", "export", tmp_path / "run.tfrec", "--format", "perfetto"]
    subprocess.run([*export, "--profiles", tmp_path / "here", "--out", trace], check=True)
    with opened(trace, tmp_path) as answers:
        (found,) = answers.rows(REDUCED)
    # Both clocks are the host's, and stamps are taken beside the op, not in it.
    assert found["ops"] > 0 and found["ops"] == found["within"]
