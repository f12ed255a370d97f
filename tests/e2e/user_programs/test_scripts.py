"""A user's own unmodified Keras scripts, each trained by two agents and measured by their probes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from local_cluster import run_files
from recording import Recording
from task_cluster import run_workers

PROGRAMS = Path(__file__).parents[1] / "programs"
STEPS = 300
"""Number of steps of every script here."""


def trained(folder: Path, script: str, workers: int = 2, **variables: str) -> tuple[Recording, list[str]]:
    """Train; return the recording of the run, and the tasks' logs."""
    run = run_workers(folder, [sys.executable, PROGRAMS / script], workers, variables)
    logs = [(run_files(folder) / f"worker-{index}.log").read_text() for index in range(workers)]
    return run, logs


def assert_measured(run: Recording, logs: list[str], keras: str) -> None:
    """Require that every step of both workers came, with all phases but those before the first."""
    for index, subject in enumerate(("worker:0", "worker:1")):
        columns = run.steps[subject]
        assert columns["sequence"] == list(range(STEPS)), logs[index][-2000:]
        run.assert_phases_known(subject)
        last = run.frames_of(subject)[-1]
        assert last["status"]["state"] == "exited" and last["status"]["exit"]["code"] == 0
        assert last["probe"]["strategy"] == "MultiWorkerMirroredStrategy"
        assert last["probe"]["keras"].startswith(keras)
        # 32 x 256 + 256 x 256 + 256 x 10 weights and 522 biases, 4 bytes each.
        assert last["probe"]["reduced_bytes_per_step"] == 4 * (32 * 256 + 256 * 256 + 256 * 10 + 522)
        assert last["probe"]["examples_per_step"] == 64
        assert (
            'trained as {"cluster"' in logs[index] and f'"index": {index}}}' in logs[index].rpartition("trained as")[2]
        )


def assert_logged(run: Recording, log: str) -> None:
    """Require that the newest logs of the chief are the last of its history, the validation's with their epoch."""
    found = re.search(r"^logged (.*)$", log, re.MULTILINE)
    assert found is not None
    training = run.frames_of("worker:0")[-1]["training"]
    logs = {each["name"]: each["value"] for each in training["logs"]} | {"loss": training["loss"]}
    assert logs == pytest.approx(json.loads(found[1]), rel=1e-5)
    epochs = {each["name"]: each["epoch"] for each in training["logs"]}
    assert epochs == {"val_loss": 2, "accuracy": None, "val_accuracy": 2} and not training["logs_left_out"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("keras", "variables"),
    [
        ("keras 3", {}),
        pytest.param("tf_keras 2", {"TF_USE_LEGACY_KERAS": "1"}, marks=pytest.mark.slow),
    ],
)
def test_a_keras_script_trains_and_is_measured(tmp_path: Path, keras: str, variables: dict[str, str]) -> None:
    run, logs = trained(tmp_path, "keras_fit.py", **variables)
    assert_measured(run, logs, keras)
    assert_logged(run, logs[0])


@pytest.mark.tensorflow
def test_a_script_under_mirrored_strategy_is_measured(tmp_path: Path) -> None:
    run, logs = trained(tmp_path, "mirrored_fit.py", workers=1)
    columns = run.steps["worker:0"]
    assert columns["sequence"] == list(range(STEPS)), logs[0][-2000:]
    run.assert_phases_known("worker:0")
    probe = run.frames[-1]["probe"]
    assert (probe["strategy"], probe["replicas"], probe["local_replicas"]) == ("MirroredStrategy", 2, 2)
    assert probe["reduced_bytes_per_step"] == 4 * (32 * 64 + 64 * 10 + 74)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_script_with_index_0_in_it_gets_the_agents_tf_config(tmp_path: Path) -> None:
    run, logs = trained(tmp_path, "keras_fit_index_0.py")
    assert_measured(run, logs, "keras 3")
    assert all(log.count("the script assigns TF_CONFIG") == 1 for log in logs)
