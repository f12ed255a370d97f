"""Trainings that end without a step, or run beside the GPUs of their host: the console says so, `--once` ends with 3.

The GPUs are fakes behind NVML's interface.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from local_cluster import end, start_agent, unhealthy, write_cluster

FOLDER = Path(__file__).parent
PROGRAMS = FOLDER.parent / "programs"


def told(folder: Path, command: Sequence[str | Path], before: Sequence[str | Path] = ()) -> tuple[str, str]:
    """Return kind and headline of what a task with this command is said to do wrong."""
    cluster = write_cluster(folder, 1)
    agent = start_agent(folder, cluster, 0, command, module=before)
    try:
        snapshot = unhealthy(cluster)
    finally:
        end([agent])
    return snapshot["diagnoses"][0]["kind"], snapshot["headline"]


@pytest.mark.tensorflow
def test_a_training_on_the_cpu_of_a_host_with_gpus_is_told(tmp_path: Path) -> None:
    kind, headline = told(tmp_path, [sys.executable, PROGRAMS / "endless_alone.py"], [FOLDER / "agent_with_gpus.py"])
    assert kind == "unused_gpus"
    assert headline.startswith("worker:0 trains on its CPU: TensorFlow 2.")
    assert headline.endswith(" found none of the host's 4 GPUs: CUDA_VISIBLE_DEVICES is '' and hides them")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_training_that_ends_well_without_a_step_is_told(tmp_path: Path) -> None:
    kind, headline = told(tmp_path, [sys.executable, PROGRAMS / "causes" / "empty_data.py"])
    assert kind == "not_trained"
    assert headline.startswith("worker:0 has ended without a training step: its script made no step: is its data set")
