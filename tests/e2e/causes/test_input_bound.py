"""Workers that are all bound by their input: which of them is later by a hair says nothing of what a repair gains."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from task_cluster import run_program

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "input_bound.py"


@pytest.mark.matrix
@pytest.mark.alone
@pytest.mark.tensorflow
def test_of_two_equally_slow_inputs_none_is_said_to_cost_what_its_repair_would_not_gain(tmp_path: Path) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAM, "1200"], {"worker": 2}, {}, 150)
    assert ran.exit_code("worker:0") == ran.exit_code("worker:1") == 0, ran.logs
    assert ran.recording.step_time("worker:0") == pytest.approx(0.032, rel=0.2)
    for straggler in ran.recording.told("straggler"):
        assert straggler["severity"] == "warning", straggler
        evidence = straggler["evidence"]
        assert evidence.get("cost_is") == "at_most" or evidence["slowdown"] < 1.1, straggler
