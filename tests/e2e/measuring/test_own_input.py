"""Programs that bring their batches themselves, without tf.data: the worker that does it slowly is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from measuring.measured_workers import measured, middle_phases
from task_cluster import run_program

pytestmark = pytest.mark.alone

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "own_input.py"
SLOW = 50.0
"""Milliseconds that worker 1 takes for a batch."""


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_worker_that_loads_its_arrays_slowly_is_named_with_its_python_and_its_input(tmp_path: Path) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAM, "function", "500"], {"worker": 2}, {}, 120)
    assert ran.exit_code("worker:0") == ran.exit_code("worker:1") == 0, ran.logs
    straggler = ran.recording.told("straggler")[0]
    assert straggler["subject"] == "worker:1" and straggler["evidence"]["cause"] == "host"
    assert "its own Python (callbacks, logging, input without tf.data)" in straggler["sentence"]
    for subject in ("worker:0", "worker:1"):
        ran.recording.assert_phases_known(subject)
    probes = [frame["probe"] for frame in ran.recording.frames if frame["probe"]]
    assert any("the program brings its batches itself" in warning for warning in probes[-1]["warnings"])


@pytest.mark.tensorflow
@pytest.mark.matrix
@pytest.mark.parametrize("loop", ["on_batch", "run", "eager", "accumulation"])
def test_whatever_the_loop_its_own_input_is_time_on_the_host(loop: str, tmp_path: Path) -> None:
    workers = measured(tmp_path, PROGRAM, loop, "60", workers=2)
    assert [worker.exit_code for worker in workers] == [0, 0], workers[1].log[-3000:]
    fast, slow = (middle_phases(worker.rows[2:]) for worker in workers)
    batches = 2 if loop == "accumulation" else 1
    assert len(workers[0].rows) == 60 / batches
    assert slow["host"] - fast["host"] == pytest.approx(batches * SLOW, rel=0.2)
    assert fast["reduce"] - slow["reduce"] == pytest.approx(batches * SLOW, rel=0.25)
    assert slow["input"] == 0.0 and abs(slow["compute"] - fast["compute"]) < 10
