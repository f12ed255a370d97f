"""Launchers that lose the probe's way in: what the console says then, and the second way in that survives them."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from local_cluster import run_files, running, unhealthy, write_cluster
from task_cluster import run_workers

PROGRAMS = Path(__file__).parents[1] / "programs"
FIT = PROGRAMS / "mirrored_fit.py"
STEPS = 300


def headline_of(folder: Path, command: Sequence[str | Path]) -> str:
    """Run an endless training without a probe; return the headline that ends `--once` with 3."""
    cluster = write_cluster(folder, 1)
    with running(folder, cluster, 1, command, {}):
        snapshot = unhealthy(cluster)
    assert [diagnosis["kind"] for diagnosis in snapshot["diagnoses"]] == ["not_measured"]
    return str(snapshot["headline"])


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Return the Python of an environment of its own that has this one's TensorFlow, and the second way in."""
    venv.create(tmp_path / "venv")
    path = tmp_path / "venv" / "bin" / "python"
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (packages / "borrowed.pth").write_text("\n".join(folder for folder in sys.path if "site-packages" in folder))
    install = [sys.executable, "-m", "tfscale.agent.cli", "install-probe", "--python", path]
    subprocess.run(install, check=True, capture_output=True)
    return str(path)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (
            'PYTHONPATH={programs} exec "$1" -m endless "$2"',
            "PYTHONPATH of its process {pid} was set to '{programs}' a",
        ),
        pytest.param(
            'exec "$1" -I "{programs}/endless.py" "$2"',
            "Python of its process {pid} was started with -I, which ignores",
            marks=pytest.mark.matrix,
        ),
        pytest.param(
            'env -i "$1" "{programs}/endless_alone.py"; true',
            "the environment of its process {pid} was cleaned, and la",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["PYTHONPATH", "-I", "env -i"],
)
def test_the_headline_says_why_nothing_is_measured(tmp_path: Path, launcher: str, said: str) -> None:
    script = tmp_path / "train.sh"
    script.write_text(launcher.format(programs=PROGRAMS))
    headline = headline_of(tmp_path, ["sh", script, sys.executable, tmp_path])
    before, _, after = said.format(pid="PID", programs=PROGRAMS).partition("PID")
    assert headline.startswith(f"worker:0 is neither measured nor repaired: {before}")
    assert after in headline
    assert f"or run 'tfscale-agent install-probe --python {sys.executable}' once; then restart it" in headline


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param('PYTHONPATH={programs} "$1" -m mirrored_fit', marks=pytest.mark.matrix),
        pytest.param('"$1" -I {programs}/mirrored_fit.py', marks=pytest.mark.matrix),
        'env -i "$1" {programs}/mirrored_fit.py',
    ],
    ids=["PYTHONPATH", "-I", "env -i"],
)
def test_the_second_way_in_survives_it(tmp_path: Path, python: str, launcher: str) -> None:
    script = tmp_path / "train.sh"
    script.write_text(launcher.format(programs=PROGRAMS))
    run = run_workers(tmp_path, ["sh", script, python], 1)
    log = (run_files(tmp_path) / "worker-0.log").read_text()
    assert run.steps["worker:0"]["sequence"] == list(range(STEPS)), log[-2000:]
    assert run.told("not_measured") == []
    alone = any("TF_CONFIG is no longer in the environment" in note for note in run.frames[-1]["probe"]["warnings"])
    assert alone == ("env -i" in launcher)
