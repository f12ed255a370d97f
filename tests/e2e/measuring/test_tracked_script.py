"""A real training that logs to MLflow, whose own run gets the numbers of the console."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mlflow
import pytest

PROGRAM = Path(__file__).parents[1] / "programs" / "logs_to_mlflow.py"


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what MLflow's database is made of
def test_the_scripts_own_run_has_its_loss_and_the_numbers_of_the_console(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    words = ["run", "--headless", "--only", "events", "--track", "mlflow", "--", sys.executable, PROGRAM]
    command = [sys.executable, "-m", "tfscale.console.cli", *words]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": uri}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "WARNING" not in ended.stderr, ended.stderr
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert run.info.status == "FINISHED"
    assert {
        "loss",
        "tfscale/step/compute/worker-0",
        "tfscale/host/cpu/worker-0",
        "tfscale/goodput/share/cluster",
    } <= set(run.data.metrics)
