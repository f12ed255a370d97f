"""The two lines for those who have no agent: the same records, in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_cluster import ENVIRONMENT
from recording import Recording

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "measured" / "several_files.py"
BATCHES = 16
"""Number of batches of the program's data set."""
RUN_ELSEWHERE = """
import sys, tensorflow as tf
trainer = tf.saved_model.load(sys.argv[1])
print(float(trainer.step(tf.ones((16, 8)), tf.zeros(16, tf.int64))))
ops = [op for function in trainer.step.concrete_functions for op in function.graph.get_operations()]
stamps = {op.type for op in ops if op.name.startswith(("TfscaleStamp", "Timestamp"))}
assert stamps and stamps <= {"NoOp", "Timestamp"} and not any(op.type == "Stage" for op in ops)
assert not any(name.startswith("tfscale") for name in sys.modules)
"""


def python(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, env=os.environ | ENVIRONMENT | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    roots = os.pathsep.join(str(REPOSITORY / root) for root in ("core", "trainer", "protos"))
    ran = python(PROGRAM, folder, PYTHONPATH=roots)
    (folder / "said").write_text(ran.stdout)
    (folder / "errors").write_text(ran.stderr)
    return folder


def last(run: Recording, name: str) -> Any:
    return [frame[name] for frame in run.frames if frame[name] is not None][-1]


@pytest.mark.tensorflow
def test_a_callback_measures_its_fit(folder: Path) -> None:
    run = Recording.read(folder / "callback.jsonl")
    columns = run.steps["worker:0"]
    assert columns["sequence"] == list(range(2 * BATCHES))
    for phase in ("update", "host", "input", "compute"):
        assert all(value is not None and value >= 0 for value in columns[phase][1:]), phase
    assert set(columns["reduce"]) == {None}
    assert (last(run, "probe")["strategy"], last(run, "probe")["examples_per_step"]) == (None, 16)
    training = last(run, "training")
    assert (training["epoch"], training["global_step"], training["finite"]) == (1, 2 * BATCHES, True)
    assert training["learning_rate"] == pytest.approx(0.1) and training["loss"] > 0
    length = ("epochs", "epoch_step", "epoch_steps", "time_left")
    assert [training[name] for name in length] == [2, BATCHES, BATCHES, 0.0], "the fit is over"
    header = json.loads((folder / "callback.jsonl").read_text().splitlines()[0])
    assert (header["type"], header["tasks"]) == ("header", ["worker:0"])


@pytest.mark.tensorflow
def test_a_loss_that_is_no_number_is_told_and_validation_is_no_step(folder: Path) -> None:
    run = Recording.read(folder / "nan.jsonl")
    assert len(run.steps["worker:0"]["sequence"]) == 2 * BATCHES
    training = last(run, "training")
    assert (training["finite"], training["loss"]) == (False, None)
    ended = [each for frame in run.frames for each in frame["activities"] if each["end"] is not None]
    assert {"compile", "evaluation"} <= {each["kind"] for each in ended}


@pytest.mark.tensorflow
def test_a_full_disk_is_told_once_and_ends_one_file_only(folder: Path) -> None:
    told = [line for line in (folder / "errors").read_text().splitlines() if line.startswith("tfscale:")]
    expected = "tfscale: nothing more is written to /dev/full: No space left on device; the training goes on"
    assert told == [expected]
    assert (folder / "nan.jsonl").stat().st_size > 0


@pytest.mark.tensorflow
def test_steps_that_xla_compiled_are_shown_whole(folder: Path) -> None:
    run = Recording.read(folder / "xla.jsonl")
    columns = run.steps["worker:0"]
    assert len(columns["sequence"]) == BATCHES
    assert all(later > earlier for earlier, later in zip(columns["end"], columns["end"][1:], strict=False))
    assert set(columns["compute"]) == set(columns["update"]) == {None}
    assert all(value is not None for phase in ("host", "input") for value in columns[phase][1:])
    (warning,) = last(run, "probe")["warnings"]
    assert "XLA" in warning


@pytest.mark.tensorflow
def test_a_measured_function_is_exported_and_runs_where_no_probe_is(folder: Path) -> None:
    assert len(Recording.read(folder / "export.jsonl").steps["worker:0"]["sequence"]) == BATCHES
    assert 0 <= float(python("-c", RUN_ELSEWHERE, folder / "exported").stdout) < 10


@pytest.mark.tensorflow
def test_a_checkpoint_holds_nothing_of_the_probe(folder: Path) -> None:
    said = (folder / "said").read_text()
    assert "checkpointed" in said and "tfscale" not in said


@pytest.mark.tensorflow
@pytest.mark.parametrize("legacy", ["0", "1"], ids=["keras", "tf_keras"])
def test_the_norm_of_the_gradients_is_told_where_the_program_logs_it(tmp_path: Path, legacy: str) -> None:
    roots = os.pathsep.join(str(REPOSITORY / root) for root in ("core", "trainer", "protos"))
    lines = tmp_path / "norm.jsonl"
    python(PROGRAM.with_name("gradient_norm.py"), lines, PYTHONPATH=roots, TF_USE_LEGACY_KERAS=legacy)
    training = last(Recording.read(lines), "training")
    assert training["grad_norm"] > 0 and training["finite"]
