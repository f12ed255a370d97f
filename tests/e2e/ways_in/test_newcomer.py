"""The first things that a person types: a script of their own on one machine, and a folder with a cluster file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_cluster import ENVIRONMENT, wait_until

BIN = Path(sys.executable).parent
_SCRIPT = """
import os
import sys

import numpy as np
import keras

print("TF_CONFIG is", os.environ.get("TF_CONFIG"))
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones([3200, 4], "float32")
model.fit(x, x[:, :1], epochs=int(sys.argv[1]), verbose=2)
print("trained", end="")
sys.exit(3)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment of an own user, who has neither settings nor runs, and no TF_CONFIG."""
    places = {f"XDG_{name}": str(tmp_path / name) for name in ("RUNTIME_DIR", "STATE_HOME", "CONFIG_HOME")}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | ENVIRONMENT | places | {"PATH": path, "TMPDIR": str(tmp_path)}
    return {name: value for name, value in variables.items() if name != "TF_CONFIG"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "my training"
    place.mkdir()
    (place / "train.py").write_text(_SCRIPT)
    return place


@pytest.mark.tensorflow
def test_a_script_on_one_machine_is_measured_by_one_line(folder: Path, environment: dict[str, str]) -> None:
    words = ["tfscale-agent", "--", "python", "train.py", "1000"]
    agent = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: "steps/s" in _once(folder, environment)["headline"])
        shown = _once(folder, environment)
        assert shown["run"].startswith("train-") and [task["task"] for task in shown["tasks"]] == ["worker:0"]
        assert shown["healthy"] and shown["steps_per_second"] > 10
    finally:
        agent.terminate()
        agent.communicate(timeout=40)


@pytest.mark.tensorflow
def test_the_script_is_what_it_is_without_us(folder: Path, environment: dict[str, str]) -> None:
    words = ["python", "train.py", "2"]
    alone = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    ours = subprocess.run(
        ["tfscale-agent", "--", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert alone.returncode == ours.returncode == 3
    assert "TF_CONFIG is None\n" in alone.stdout and ours.stdout.rstrip("\n").endswith("trained")
    assert [line for line in ours.stdout.splitlines() if line.startswith("Epoch")] == ["Epoch 1/2", "Epoch 2/2"]
    assert "TF_CONFIG is None\n" in ours.stdout
    assert "--- tfscale" not in ours.stdout
    first, *_ = ours.stderr.splitlines()
    assert first.startswith("tfscale-agent: train-")
    assert sum(line.endswith("exited 3") for line in ours.stderr.splitlines()) == 1


@pytest.mark.tensorflow
def test_run_does_both_and_says_how_it_ended(folder: Path, environment: dict[str, str]) -> None:
    words = ["tfscale-console", "run", "--headless", "--only", "frames", "--", "python", "train.py", "30"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    last = [frame for frame in frames if frame["type"] == "frame"][-1]
    assert done.returncode == 3 and last["status"]["exit"]["code"] == 3, done.stderr
    assert last["training"]["epoch"] == 29


def test_a_cluster_file_in_the_folder_is_found_by_both(folder: Path, environment: dict[str, str]) -> None:
    program = """["python", "-c", "import time; print('up', flush=True); time.sleep(60)"]"""
    (folder / "cluster.toml").write_text(
        '[cluster]\nworker = ["127.0.0.1:29170", "127.0.0.1:29171"]\n'
        '[agents]\n"worker:0" = "127.0.0.1:29172"\n"worker:1" = "127.0.0.1:29173"\n'
        f"[program]\ncommand = {program}\n"
    )
    agents = []
    try:
        for index in ("0", "1"):
            words = ["tfscale-agent", "--role", "worker", "--index", index]
            agents.append(subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True))
        wait_until(lambda: all(task["status"] for task in _once(folder, environment)["tasks"]))
        # What a person types; without a terminal the console says what else to do, and it is not "no cluster".
        done = subprocess.run(
            ["tfscale-console"], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and "no terminal to draw on: use --headless" in done.stderr
        assert f"the cluster is that of {folder}/cluster.toml" in done.stderr
    finally:
        for agent in agents:
            agent.terminate()
        said = [agent.communicate(timeout=40)[1] for agent in agents]
    assert all(f"the cluster is that of {folder}/cluster.toml" in lines for lines in said)


@pytest.mark.alone  # an agent of another test at port 7070 would be found
def test_where_nothing_runs_three_ways_are_named(folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["tfscale-console", "--once"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in ("run -- python train.py", "--agent HOST:PORT", "--simulate 8"))


def _once(folder: Path, environment: dict[str, str]) -> dict[str, object]:
    done = subprocess.run(
        ["tfscale-console", "--once"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if not done.stdout:
        time.sleep(0.5)
        return {"headline": "", "tasks": [{"status": None}]}
    found: dict[str, object] = json.loads(done.stdout)
    return found
