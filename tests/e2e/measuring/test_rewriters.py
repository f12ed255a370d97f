"""Rewriters of graphs, which make the same of a step with and without the probe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import ENVIRONMENT
from measuring.measured_workers import measured

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "rewriters.py"


def cases(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("case ")]


@pytest.mark.tensorflow
@pytest.mark.slow
def test_converters_and_transformations_make_the_same_of_a_step_that_was_traced(tmp_path: Path) -> None:
    command = [sys.executable, PROGRAM, tmp_path]
    stock = subprocess.run(
        command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=180, check=True
    )
    (worker,) = measured(tmp_path, PROGRAM, str(tmp_path))
    assert worker.exit_code == 0, worker.log[-3000:]
    assert cases(worker.log) == cases(stock.stdout) and len(cases(worker.log)) == 27
    assert worker.rows and not worker.sink.statuses[-1][1].message
