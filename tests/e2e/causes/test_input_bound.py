"""Workers that are bound by their input: one is named only where it is known that the others' data come earlier."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from recording import Recording
from task_cluster import run_program

PROGRAM = Path(__file__).parents[1] / "programs" / "causes" / "input_bound.py"


def recorded(folder: Path, *arguments: str) -> Recording:
    ran = run_program(folder, [sys.executable, PROGRAM, *arguments], {"worker": 2}, {}, 150)
    assert ran.exit_code("worker:0") == ran.exit_code("worker:1") == 0, ran.logs
    return ran.recording


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.tensorflow
def test_of_two_equally_slow_inputs_none_is_named_and_the_cluster_is_bound_by_them(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "700", "30", "30")
    assert recording.told("straggler") == recording.told("imbalance") == []
    began = [each["begin"] for each in recording.told("saturation") if each["evidence"]["resource"] == "input"]
    assert began and min(began) < recording.first_step_of_all + 15


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.tensorflow
def test_of_two_slow_inputs_the_slower_one_is_named_with_what_the_other_one_leaves(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "250", "20", "80")
    (straggler, *_) = recording.told("straggler")
    assert straggler["subject"] == "worker:1"
    assert straggler["evidence"]["slowdown"] == pytest.approx(80 / 20, rel=0.25)
