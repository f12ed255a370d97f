"""Loss of a fit of Keras 3 under ParameterServerStrategy, which is on a worker: it is told, and so is its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from task_cluster import run_program

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "loss_on_servers.py"
ROLES = {"chief": 1, "worker": 1, "ps": 1}


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_loss_on_a_worker_is_told_and_a_loss_that_is_no_number_is_diagnosed(tmp_path: Path) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAM], ROLES, {}, timeout=150)
    assert "trained 240 steps" in ran.logs["chief:0"]
    frames = [frame for frame in ran.recording.frames if frame["task"] == "chief:0" and frame["training"]]
    losses = {frame["training"]["epoch"]: frame["training"]["loss"] for frame in frames}
    assert losses[0] is not None and losses[0] > 0
    assert losses[5] is None and frames[-1]["training"]["finite"] is False
    assert {each["subject"] for each in ran.recording.told("not_finite")} == {"chief:0"}
    assert ran.recording.told("hang") == []
