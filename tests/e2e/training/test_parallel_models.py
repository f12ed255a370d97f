"""Parallel models under an agent: a pipeline with its stages, and a mesh of DTensor, which the probe leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from training.train_command import run_train, seen

pytestmark = pytest.mark.alone

STEPS_SEEN = 3


def has_steps(snapshot: Any) -> bool:
    """Decide whether the one task has stages, and each of them some steps."""
    stages = snapshot["tasks"][0]["stages"].values()
    return bool(stages) and all(stage["step"] >= STEPS_SEEN for stage in stages)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_stages_are_stages_and_no_straggler_of_each_other() -> None:
    found = seen("pipeline", "--micro-batches", "4", until=has_steps)
    (task,) = found["tasks"]
    assert list(task["stages"]) == ["worker:0/stage:0", "worker:0/stage:1"]
    for stage in task["stages"].values():
        assert stage["compute"] > 0 and stage["input"] > 0 and stage["ratio"] is None
        # One step of the task is one step of each stage.
        assert abs(stage["step"] - task["summary"]["step"]) <= STEPS_SEEN
    assert not {each["kind"] for each in found["diagnoses"]} & {"straggler", "imbalance"}


@pytest.mark.slow
def test_a_mesh_of_dtensor_trains_under_an_agent() -> None:
    ran = run_train("tensor-parallel", "--steps", "3")
    assert ran.returncode == 0, ran.stderr
    assert "step 3: loss" in ran.stdout and "hidden kernel [64, 512]: 4 devices hold [64, 256] each" in ran.stdout


@pytest.mark.slow
def test_the_console_says_why_a_mesh_of_dtensor_has_no_steps() -> None:
    snapshot = seen("tensor-parallel", until=lambda snapshot: "is not measured" in snapshot["headline"])
    why = "the program uses DTensor, whose graphs take none of the probe's ops: its steps are not measured"
    assert snapshot["tasks"][0]["notes"] == [why] and snapshot["headline"] == f"worker:0 is not measured: {why}"


@pytest.mark.slow
def test_help_is_told_without_what_tensorflow_says_of_itself() -> None:
    told = run_train("pipeline", "--help")
    assert told.returncode == 0 and told.stderr == "" and "tfscale-train run pipeline --stages 2" in told.stdout
