"""BatchNormalization under replicas: whose statistics it takes, and whose moving averages are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from compat import in_scope
from example_programs import KERAS, SLOW_KERAS
from local_cluster import ENVIRONMENT

ONE_HOST = {
    "keras 3": {"one-device": 0, "mirrored": 0, "mirrored, 3": 0, "central-storage": 0.5},
    "tf_keras 2": {"one-device": 0, "mirrored": 0.5, "mirrored, 3": 1 / 3, "central-storage": 0.5},
}
"""Moving mean that is kept: the first replica's examples are zeros, the mean of all replicas is a half of two."""
WORKERS = {"keras 3": {"multi-worker": 0}, "tf_keras 2": {"multi-worker": 0.5}}


def kept(folder: Path, tasks: str, keras: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    out = folder / "found.json"
    in_scope.run(folder, "batch_statistics", tasks, keras, [out], monkeypatch)
    found = json.loads(out.read_text())
    assert [name for name, (largest, _) in found.items() if largest > 1e-3] == [], "a replica's own statistics"
    return {name: mean for name, (_, mean) in found.items()}


@pytest.mark.parametrize("keras", SLOW_KERAS)
def test_a_replica_takes_its_own_statistics_and_keras_3_keeps_the_first_replicas_averages(
    keras: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept(tmp_path, "one host", keras, monkeypatch) == pytest.approx(ONE_HOST[keras])


@pytest.mark.matrix
@pytest.mark.parametrize("keras", list(KERAS))
def test_of_two_workers_keras_3_keeps_the_first_ones_averages(
    keras: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept(tmp_path, "multi-worker", keras, monkeypatch) == pytest.approx(WORKERS[keras])


@pytest.mark.matrix
def test_stock_keras_3_does_not_run_it_under_central_storage(tmp_path: Path) -> None:
    program, out = in_scope.PROGRAMS / "batch_statistics.py", tmp_path / "found.json"
    place = {"TF_CONFIG": json.dumps({"cluster": {"worker": ["127.0.0.1:0"]}, "task": {"type": "worker", "index": 0}})}
    subprocess.run([sys.executable, program, out], env=os.environ | ENVIRONMENT | place, check=True, timeout=100)
    assert "You must specify an aggregation method" in json.loads(out.read_text())["central-storage"]
