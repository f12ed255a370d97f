"""Programs that run graphs on servers without the probe, whose TensorFlow does not know its ops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from measuring.measured_workers import measured

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "remote_servers.py"


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("reads", ["data", "own"])
def test_a_program_on_a_remote_device_runs_as_stock_and_its_steps_are_shown_whole(reads: str, tmp_path: Path) -> None:
    stock = subprocess.run([sys.executable, PROGRAM, reads], capture_output=True, text=True, timeout=120, check=True)
    (worker,) = measured(tmp_path, PROGRAM, reads)
    assert worker.exit_code == 0, worker.log[-3000:]
    assert stock.stdout.strip() in worker.log
    assert [row.sequence for row in worker.rows] == list(range(40))
    _, status = worker.sink.statuses[-1]
    assert any("connected to other processes of TensorFlow" in warning for warning in status.warnings)
