"""Checkpoints and event files of `tfscale-train run`: who writes them, and what a run makes of those that are there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from example_programs import KERAS
from training.train_command import environment, left, start, train

SERVERS = ("parameter-server", "--workers", "2", "--servers", "2")


@pytest.mark.slow
def test_of_two_workers_one_writes_checkpoints_event_files_and_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TensorBoard is no requirement of tfscale: here its import fails in the tasks, as where it is not installed.
    hidden = tmp_path / "hidden" / "tensorboard" / "__init__.py"
    hidden.parent.mkdir(parents=True)
    hidden.write_text("raise ModuleNotFoundError(\"No module named 'tensorboard'\", name='tensorboard')")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parents[1]))
    checkpoints, events, model = (tmp_path / name for name in ("checkpoints", "events", "model.keras"))
    words = ("--steps", "200", "--checkpoints", str(checkpoints), "--tensorboard", str(events), "--save", str(model))
    train(tmp_path / "result.json", ("multi-worker",), *words)
    numbers = (100, 200)
    files = {f"ckpt-{step}.{end}" for step in numbers for end in ("index", "data-00000-of-00001")}
    assert {path.name for path in checkpoints.iterdir()} == {"checkpoint", *files}
    assert [path.name for path in tmp_path.glob("model*")] == ["model.keras"]
    (written,) = events.iterdir()
    assert scalars(written) == {"loss": [100, 200], "held out loss": [200], "held out accuracy": [200]}


def scalars(path: Path) -> dict[str, list[int]]:
    """Return the steps of each scalar in an event file."""
    import tensorflow as tf

    found: dict[str, list[int]] = {}
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("keras", KERAS)
def test_a_parameter_server_run_that_was_interrupted_goes_on_from_its_checkpoint(keras: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    strategy = (*SERVERS, "--checkpoints", str(folder))
    with subprocess.Popen(
        start(strategy, "--steps", "1000000"), env=environment(keras), stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        told = [run.stderr.readline() for _ in range(4)]
        run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
        assert run.wait(60) == 130 and f"goes on from the newest checkpoint in {folder}" in rest
    assert told[3].startswith("step 200: mean loss") and left("".join(told)) == []
    made = newest(folder)
    result = train(tmp_path / "result.json", strategy, "--steps", str(made + 100), keras=keras, step=made + 100)
    assert (result.begin, result.steps, result.loss[-1][0]) == (made, 100, made + 100)
    assert result.loss[0][1] < 1.0, "untrained it would be 2.3"
    assert newest(folder) == made + 100


def newest(folder: Path) -> int:
    return max(int(path.stem.rpartition("-")[2]) for path in folder.glob("ckpt-*.index"))


@pytest.mark.slow
def test_a_folder_of_another_model_and_one_that_has_all_steps_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    train(tmp_path / "result.json", ("one-device", "--checkpoints", str(folder)), "--steps", "100")
    before = Counter(path.name for path in folder.iterdir())
    asked = {
        ("digits", "100"): f"--checkpoints {folder}: has made 100 of --steps 100, ask for more",
        ("mlp", "200"): f"--checkpoints {folder}: ckpt-100 is of another model or optimizer; name another folder",
    }
    for (program, steps), said in asked.items():
        command = [start(("one-device",))[0], "run", program, "--checkpoints", str(folder), "--steps", steps]
        ended = subprocess.run(
            command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 2 and ended.stdout == ""
        assert ended.stderr.splitlines()[-1] == f"tfscale-train: {said}"
        assert "Traceback" not in ended.stderr and left(ended.stderr) == []
    assert Counter(path.name for path in folder.iterdir()) == before
