"""Training gives the same weights, bit by bit, whatever the probe does or suffers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import ENVIRONMENT, run_files, running, wait_until, write_cluster
from loopback import free_addresses

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "identical.py"
ROOTS = os.pathsep.join(str(Path(__file__).parents[3] / root) for root in ("core", "trainer", "protos"))

LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
"""Variables for tf_keras: Keras 3 trains on several workers only with repairs, which come with the probe."""


def results(log: str) -> str:
    """Return the line with the digest and the loss that a program printed."""
    lines = [line for line in log.splitlines() if line.startswith("trained to")]
    assert len(lines) == 1, log[-3000:]
    return lines[0]


def trained(folder: Path, suffers: str, workers: int = 1) -> tuple[set[str], str]:
    """Train; return the results of all workers, and their logs."""
    addresses = list(free_addresses(workers))
    processes = []
    for index in range(workers):
        environment = os.environ | ENVIRONMENT | {"PYTHONPATH": ROOTS}
        if workers > 1:
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment |= LEGACY | {"TF_CONFIG": json.dumps(task)}
        out = folder / f"{suffers}-{index}.jsonl"
        command = [sys.executable, PROGRAM, suffers, out]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(subprocess.Popen(command, env=environment, **pipes))
    logs = [process.communicate(timeout=180)[0] for process in processes]
    return {results(log) for log in logs}, "\n".join(logs)


@pytest.mark.tensorflow
def test_one_process_with_and_without_the_probe(tmp_path: Path) -> None:
    plain, _ = trained(tmp_path, "none")
    measured, log = trained(tmp_path, "measured")
    assert plain == measured, log
    lines = [json.loads(line) for line in (tmp_path / "measured-0.jsonl").read_text().splitlines()]
    steps = [
        number for line in lines if line["type"] == "frame" for each in line["steps"] for number in each["sequence"]
    ]
    assert steps == list(range(200))


@pytest.mark.tensorflow
@pytest.mark.matrix
@pytest.mark.parametrize("workers", [1, 2])
def test_whatever_the_probe_suffers(tmp_path: Path, workers: int) -> None:
    (plain,), _ = trained(tmp_path, "none", workers)
    assert trained(tmp_path, "none", workers)[0] == {plain}
    assert trained(tmp_path, "measured", workers)[0] == {plain}
    told = {
        "full": "tfscale: nothing more is written to /dev/full: No space left on device; the training goes on",
        "untraced": "tfscale: the probe failed and measures no more: RuntimeError('broken on purpose')",
        "unread": "tfscale: the probe failed and measures no more: RuntimeError('broken on purpose')",
    }
    for suffers, words in told.items():
        came_to, log = trained(tmp_path, suffers, workers)
        assert came_to == {plain}, suffers
        assert log.count(words) == workers, log[-3000:]


@pytest.mark.tensorflow
@pytest.mark.slow
def test_an_agent_that_dies_changes_nothing(tmp_path: Path) -> None:
    (plain,), _ = trained(tmp_path, "none", workers=2)
    cluster = write_cluster(tmp_path, 2)
    logs = [run_files(tmp_path) / f"worker-{index}.log" for index in range(2)]
    with running(tmp_path, cluster, 2, [sys.executable, PROGRAM, "agent"], LEGACY) as agents:
        wait_until(lambda: all(log.exists() and "begins" in log.read_text() for log in logs))
        agents[1].kill()
        wait_until(lambda: all("trained to" in log.read_text() for log in logs))
    assert {results(log.read_text()) for log in logs} == {plain}
