"""Runs of W&B and MLflow to which a process logs, found beside the real libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
from concurrent.futures import ThreadPoolExecutor
from tfscale.trainer.probe.process.tracked_runs import tracked_runs
# As the probe asks: in a thread of its own.
print(ThreadPoolExecutor().submit(tracked_runs).result())
"""
WANDB = "import wandb; run = wandb.init(project='digits', mode='offline', settings=wandb.Settings(silent=True))"
MLFLOW = "import mlflow; mlflow.set_experiment('digits'); run = mlflow.start_run()"


def said(program: str, folder: Path, **environment: str) -> list[str]:
    """Return the lines that a program prints."""
    places = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "WANDB_DIR": str(folder)}
    paths = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", program]
    ended = subprocess.run(
        command, env=paths | places | environment, capture_output=True, text=True, check=True, cwd=folder, timeout=240
    )
    return ended.stdout.splitlines()


def test_a_process_that_logs_nowhere_has_no_run(tmp_path: Path) -> None:
    assert said(ASK, tmp_path) == ["()"]


def test_runs_that_the_environment_names_are_told(tmp_path: Path) -> None:
    names = {"WANDB_RUN_ID": "x7f3", "WANDB_PROJECT": "digits", "MLFLOW_RUN_ID": "0a1b"}
    assert said(ASK, tmp_path, **names) == ["('wandb:/digits/x7f3', 'mlflow:0a1b')"]


@pytest.mark.parametrize(
    ("start", "name", "end"),
    [
        (WANDB, "f'wandb:{run.entity or str()}/digits/{run.id}'", "run.finish()"),
        (MLFLOW, "f'mlflow:{run.info.run_id}'", "mlflow.end_run()"),
    ],
)
def test_the_run_that_a_script_begins_is_told_while_it_lasts(tmp_path: Path, start: str, name: str, end: str) -> None:
    told, expected, after = said(f"{start}\n{ASK}\nprint(({name},))\n{end}\n{ASK}", tmp_path)
    assert told == expected
    assert after == "()"
