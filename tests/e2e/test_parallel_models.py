"""Parallel models under an agent: a pipeline with its stages, and a mesh of DTensor, which the probe leaves alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
ENVIRONMENT = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
STEPS_SEEN = 3


def snapshot(console: list[str]) -> dict[str, Any]:
    """Ask until stages with steps are there. Raises AssertionError after a minute."""
    for _ in range(30):
        told = subprocess.run([BIN / console[0], *console[1:], "--once"], capture_output=True, text=True, check=False)
        found: dict[str, Any] = json.loads(told.stdout)
        stages = found["tasks"][0]["stages"].values()
        if stages and all(stage["step"] >= STEPS_SEEN for stage in stages):
            return found
        time.sleep(1)
    raise AssertionError(f"no stages: {told.stdout}")


@pytest.mark.tensorflow
def test_stages_are_stages_and_no_straggler_of_each_other() -> None:
    command = [BIN / "tfscale-train", "run", "pipeline", "--micro-batches", "4", "--steps", "100000"]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        run.stderr.readline()
        try:
            found = snapshot(run.stderr.readline().split())
            run.send_signal(signal.SIGINT)
            assert run.wait(30) == 130
        except BaseException:
            # Its steps are enough for hours, and `with` waits for it.
            run.terminate()
            raise
    (task,) = found["tasks"]
    assert list(task["stages"]) == ["worker:0/stage:0", "worker:0/stage:1"]
    for stage in task["stages"].values():
        assert stage["compute"] > 0 and stage["input"] > 0 and stage["ratio"] is None
        # One step of the task is one step of each stage.
        assert abs(stage["step"] - task["summary"]["step"]) <= STEPS_SEEN
    assert not {each["kind"] for each in found["diagnoses"]} & {"straggler", "imbalance"}


@pytest.mark.slow
def test_a_mesh_of_dtensor_trains_under_an_agent() -> None:
    command = [BIN / "tfscale-train", "run", "tensor-parallel", "--steps", "3"]
    ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "step 3: loss" in ran.stdout and "hidden kernel [64, 512]: 4 devices hold [64, 256] each" in ran.stdout


@pytest.mark.slow
def test_help_is_told_without_what_tensorflow_says_of_itself() -> None:
    command = [BIN / "tfscale-train", "run", "pipeline", "--help"]
    told = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0 and told.stderr == "" and "tfscale-train run pipeline --stages 2" in told.stdout
