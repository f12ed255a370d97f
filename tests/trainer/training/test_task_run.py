"""Tasks of one cluster, as agents start them, with and without the checkpoints of a run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from local_cluster import ENVIRONMENT
from loopback import free_addresses

pytestmark = pytest.mark.tensorflow

TRAIN = Path(sys.executable).parent / "tfscale-train"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed in the end, whatever has become of them."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(strategy: str, commands: Sequence[Sequence[str]]) -> list[subprocess.Popen[str]]:
    """Start one worker for each command."""
    addresses = list(free_addresses(len(commands)))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [
        subprocess.Popen(
            [TRAIN, "run", "digits", "--strategy", strategy, *words],
            env=os.environ
            | ENVIRONMENT
            | {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})},
            **pipes,
        )
        for index, words in enumerate(commands)
    ]


def checkpoints_in(folder: Path) -> list[int]:
    return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("ckpt-*.index"))


@pytest.mark.parametrize("steps", [100, pytest.param(200, marks=pytest.mark.slow)])
def test_workers_that_see_different_checkpoints_refuse_to_train(
    steps: int, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """With 100 steps the first worker has nothing left to do, and the second would wait for it."""
    import tensorflow as tf

    folders = [tmp_path / "first", tmp_path / "second"]
    tf.train.CheckpointManager(tf.train.Checkpoint(), str(folders[0]), 1).save(checkpoint_number=100)
    started += start("multi-worker", [["--steps", str(steps), "--checkpoints", str(folder)] for folder in folders])
    for worker, folder in zip(started, folders, strict=True):
        _, told = worker.communicate(timeout=240)
        (line,) = [line for line in told.splitlines() if line.startswith("tfscale-train: ")]
        assert line.endswith(f"--checkpoints {folder}: not the same for all workers, name a shared folder")
        assert worker.returncode == 2


@pytest.mark.parametrize(
    ("loop", "strategy"),
    [
        ("fit", "one-device"),
        pytest.param("custom", "mirrored", marks=pytest.mark.matrix),
        pytest.param("fit", "central-storage", marks=pytest.mark.matrix),
    ],
)
def test_a_task_that_is_asked_to_end_saves_the_step_that_it_has_made(
    loop: str, strategy: str, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    words = ["--loop", loop, "--steps", "100000", "--checkpoints", str(tmp_path), "--seed", "1"]
    if strategy != "one-device":
        words += ["--replicas", "2"]
    started += start(strategy, [words])
    (task,) = started
    assert task.stdout is not None and task.stdout.readline().startswith("step 100: ")
    task.send_signal(signal.SIGTERM)
    rest, _ = task.communicate(timeout=240)
    assert task.returncode == 128 + signal.SIGTERM
    told = [100, *map(int, re.findall(r"^step (\d+):", rest, re.MULTILINE))]
    saved = checkpoints_in(tmp_path)
    assert saved[:-1] == told and told[-1] < saved[-1] <= told[-1] + 100
