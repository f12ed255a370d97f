"""Runs in TensorBoard, W&B and MLflow, as their own libraries read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import fakes
import mlflow
import pytest
import simulated_runs
from command_words import run_command
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tracking.tracker import Destination
from tfscale.console.tracking.tracking import Tracking
from tfscale.core.errors import TfscaleError, UsageError

# The libraries of MLflow's database use each other's deprecated functions.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SECONDS = 35
Record = Callable[..., Path]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Return a function that records a simulated run, whose program logs to these runs of trackers."""

    def record(*tracked: str) -> Path:
        def told(event: Event) -> Event:
            if not isinstance(event, FrameArrived) or event.frame.probe is None:
                return event
            probe = replace(event.frame.probe, tracked_runs=tracked)
            return replace(event, frame=replace(event.frame, probe=probe), message=None)

        events = simulated_runs.simulated(SECONDS, 2, "worker:1=1.8x@4s")
        return simulated_runs.record(tmp_path / "run.tfrec", [*map(told, events)], simulated_spec(2))

    return record


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mlflow.MlflowClient:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "false")
    return mlflow.MlflowClient(uri)


def test_a_chart_of_tensorboard_has_a_line_for_each_task(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command("export", record(), "--format", "tensorboard", "--out", tmp_path / "logs") == 0
    # TensorBoard reads without TensorFlow where this module is there.
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", ModuleType("notf"))
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    runs = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "logs"))
    runs.Reload()
    assert set(runs.Runs()) == {"cluster", "worker-0", "worker-1"}
    compute = {run: runs.Scalars(run, "step/compute") for run in ("worker-0", "worker-1")}
    assert [round(each.wall_time - fakes.NOW) % 10 for each in compute["worker-0"]] == [1, 1, 1, 1, 5]
    assert compute["worker-1"][-1].value > 1.5 * compute["worker-0"][-1].value
    steps = [each.step for each in compute["worker-0"]]
    assert steps == sorted(set(steps)) and steps[-1] > 150
    tags = set(runs.Runs()["worker-1"]["scalars"])
    assert {"gpu.0/power", "gpu.0/temperature", "gpu.0/memory_used", "disk/free", "network/sent", "step/wait"} <= tags
    assert 0 < runs.Scalars("cluster", "goodput/share")[-1].value < 1
    assert runs.Scalars("cluster", "cost/gpu_hours_per_hour")[-1].value > 0


def history(folder: Path) -> list[dict[str, Any]]:
    """Return what W&B's own reader finds in the log of a run."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    records = map(json.loads, found.stdout.splitlines())
    return [each for each in records if each["type"] in ("run", "history")]


def test_the_numbers_are_added_to_the_scripts_own_run_of_wandb(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    recording = record("wandb:ada/digits/x7f3")
    command = [sys.executable, "-m", "tfscale.console.cli", "export", recording, "--format", "wandb"]
    done = subprocess.run(command, check=True, timeout=120, stderr=subprocess.PIPE, text=True)
    assert f"--format wandb: the numbers go to {tmp_path}/wandb/offline-run-" in done.stderr
    run, *moments = history(tmp_path / "wandb")
    assert (run["run"]["run_id"], run["run"]["project"], run["run"]["entity"]) == ("x7f3", "digits", "ada")
    last = moments[-1]["history"]["item"]
    assert len(moments) == 5 and last["_timestamp"] == fakes.NOW + SECONDS
    assert last["tfscale.step/compute/worker-1"] > 1.5 * last["tfscale.step/compute/worker-0"]
    assert last["tfscale/global_step"] > 150 and last["tfscale.gpu.0/power/worker-0"] > 0


def test_the_numbers_are_added_to_the_scripts_own_run_of_mlflow(record: Record, database: mlflow.MlflowClient) -> None:
    own = database.create_run(database.create_experiment("digits"), run_name="of the script").info.run_id
    database.log_metric(own, "loss", 0.5, step=3)
    assert run_command("export", record(f"mlflow:{own}"), "--format", "mlflow") == 0
    run = database.get_run(own)
    assert run.data.metrics["loss"] == 0.5 and run.info.status == "RUNNING"
    found = database.get_metric_history(own, "tfscale/step/wait/worker-0")
    assert len(found) == 4 and found[-1].value > 0.03 and found[-1].timestamp == 1000 * (fakes.NOW + SECONDS)


def test_without_a_run_of_the_script_a_run_of_its_own_is_made(record: Record, database: mlflow.MlflowClient) -> None:
    assert run_command("export", record(), "--format", "mlflow") == 0
    (run,) = database.search_runs([database.get_experiment_by_name("tfscale").experiment_id])
    assert (run.info.run_name, run.info.status) == ("simulated", "FINISHED")
    assert run.data.metrics["tfscale/run/steps_per_second/cluster"] > 0


def test_a_live_console_tracks_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfscale.console.cli", "--simulate", "2", "--headless", "--seconds", "3"]
    place = ["--track", f"tensorboard={tmp_path / 'logs'}", "--out", os.devnull]
    done = subprocess.run([*command, *place], check=True, timeout=120, stderr=subprocess.PIPE, text=True)
    assert f"--track tensorboard={tmp_path}/logs: the numbers go to {tmp_path}/logs" in done.stderr
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["cluster", "worker-0", "worker-1"]


def test_a_tracker_that_is_away_is_told_once_and_an_export_to_it_fails(
    record: Record, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TfscaleError, match="not all of the run is there"):
        run_command("export", record(), "--format", "mlflow")
    said = capfd.readouterr().err
    assert "--track" not in said
    told = [line for line in said.splitlines() if "--format mlflow: " in line]
    assert len(told) == 1 and "what comes meanwhile is lost" in told[0]


def test_a_library_that_is_missing_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match="pip install wandb"):
        Tracking([Destination.parse("wandb")])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--headless", "--track", "comet"), "'comet' is no tracker: write tensorboard=FOLDER, wandb"),
        (("--headless", "--track", "tensorboard"), "tensorboard needs a folder"),
        (("--simulate", "2", "--track", "wandb"), "--track: goes with watch, --headless or --plain"),
        (("--simulate", "2", "--metrics", ":1"), "--metrics: goes with watch, --headless or --plain"),
        (("export", "run.tfrec", "--format", "tensorboard"), "--format tensorboard needs --out"),
        (("export", "run.tfrec", "--format", "wandb", "--out", "x"), "leave out --out"),
    ],
)
def test_what_cannot_be_tracked_is_refused(words: tuple[str, ...], answer: str) -> None:
    with pytest.raises(UsageError, match=answer):
        run_command(*words)
