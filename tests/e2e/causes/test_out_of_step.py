"""Two workers that do not do the same: what happened is said, and nobody healthy is named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from task_cluster import run_program

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "out_of_step.py"

pytestmark = [pytest.mark.tensorflow, pytest.mark.alone]


@pytest.mark.slow
def test_a_worker_with_fewer_batches_is_told_as_that(tmp_path: Path) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAM, "fewer"], {"worker": 2}, {}, timeout=150)
    assert (ran.exit_code("worker:0"), ran.exit_code("worker:1")) == (1, 0)
    crash = ran.recording.told("crash")[-1]
    assert crash["subject"] == "worker:1"
    assert crash["sentence"].startswith("worker:1 left the training after step 6")
    assert "it has fewer batches" in crash["sentence"] and "another task had died" not in crash["sentence"]


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["alone", "evaluate", "fit"])
def test_a_collective_that_the_others_do_not_run_is_told_as_that(how: str, tmp_path: Path) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAM, how], {"worker": 2}, {}, timeout=150)
    sentence = ran.recording.told("crash")[-1]["sentence"]
    # Who it is depends on what the agents heard before the end; TensorFlow's log alone does not name it.
    alike = "the workers run different collectives (does one of them evaluate alone?)"
    assert alike in sentence or re.search(r"^(after step \d+, )?worker:\d .*another collective", sentence), sentence
    assert "another task had died" not in sentence
