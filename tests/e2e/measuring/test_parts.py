"""Tasks that train in several processes: who trains is measured, and each process is a part of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from recording import Recording
from task_cluster import run_workers

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "parts.py"
STEPS = 80


def trained(folder: Path, way: str, steps: int = STEPS) -> Recording:
    return run_workers(folder, [sys.executable, PROGRAM, way, str(steps)], 1)


def parts(run: Recording) -> list[list[int]]:
    """Return the numbers of the steps of each part, in the order of the parts."""
    found: dict[int, list[int]] = {}
    batches: list[dict[str, Any]] = [batch for frame in run.frames for batch in frame["steps"]]
    for batch in batches:
        found.setdefault(batch["part"], []).extend(batch["sequence"])
    return [found[part] for part in sorted(found)]


def notes(run: Recording) -> set[str]:
    return {note for frame in run.frames if frame["probe"] for note in frame["probe"]["warnings"]}


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_process_that_trains_reports_and_not_the_one_that_predicts_beside_it(tmp_path: Path) -> None:
    run = trained(tmp_path, "helper")
    assert parts(run) == [[*range(STEPS)]]
    assert run.told("not_measured") == []


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("way", ["folds", pytest.param("exec", marks=pytest.mark.matrix)])
def test_each_process_that_trains_is_a_part_whose_steps_begin_at_0(tmp_path: Path, way: str) -> None:
    run = trained(tmp_path, way)
    assert parts(run) == [[*range(STEPS)], [*range(STEPS)]]
    (note,) = notes(run)
    assert note.endswith(", after another one of this attempt: its steps are counted from 0")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_forked_child_tells_no_step_a_second_time(tmp_path: Path) -> None:
    assert parts(trained(tmp_path, "fork")) == [[*range(2 * STEPS)]]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_no_step_is_lost_to_a_sudden_end(tmp_path: Path) -> None:
    assert parts(trained(tmp_path, "exit")) == [[*range(STEPS)]]


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_second_process_that_trains_at_the_same_time_is_told(tmp_path: Path) -> None:
    run = trained(tmp_path, "beside", steps=400)
    told = run.told("not_measured")
    assert told and "trains as well, and only process" in told[0]["sentence"]
