"""Real gradients of two replicas in one process, of which one gets a batch of NaN: its step and its variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_cluster import ENVIRONMENT
from recording import Recording

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[3]
PROGRAM = REPOSITORY / "tests" / "trainer" / "measured" / "lost_gradients.py"
ROOTS = os.pathsep.join(str(REPOSITORY / root) for root in ("core", "trainer", "protos"))


def trained(folder: Path, how: str, legacy: str = "") -> dict[str, Any]:
    """Return what is known of the training at its end."""
    lines = folder / "lines.jsonl"
    variables = {"PYTHONPATH": ROOTS, "TF_USE_LEGACY_KERAS": legacy}
    command = [sys.executable, PROGRAM, how, lines]
    ran = subprocess.run(command, env=os.environ | ENVIRONMENT | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    training: dict[str, Any] = [frame["training"] or {} for frame in Recording.read(lines).frames][-1]
    return training


@pytest.mark.parametrize(
    ("how", "legacy", "first", "variables"),
    [
        ("fit", "", "sequential/first/kernel", 4),
        ("fit", "1", "first/kernel", 4),
        ("loop", "", "weights", 1),
        ("sparse", "", "weights", 2),
    ],
)
def test_the_replica_with_the_batch_is_named(tmp_path: Path, how: str, legacy: str, first: str, variables: int) -> None:
    found = trained(tmp_path, how, legacy)["gradients"]
    assert (found["replicas"], found["sequence"], found["global_step"], found["steps"]) == ([1], 6, 7, 34)
    assert (found["first"], found["variables"], found["checked"]) == (first, variables, variables)


def test_where_both_have_such_a_batch_both_are_named(tmp_path: Path) -> None:
    training = trained(tmp_path, "all")
    assert (training["gradients"]["replicas"], training["gradients"]["sequence"]) == ([0, 1], 6)
    assert training["finite"] is False


def test_steps_that_the_program_skips_are_over(tmp_path: Path) -> None:
    assert trained(tmp_path, "scaled")["gradients"]["steps"] == 0


def test_gradients_that_xla_compiles_are_checked_where_they_are_reduced_outside_of_it(tmp_path: Path) -> None:
    found = trained(tmp_path, "compiled")["gradients"]
    assert (found["replicas"], found["sequence"], found["first"]) == ([1], 6, "weights")
