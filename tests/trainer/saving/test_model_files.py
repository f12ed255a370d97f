"""Places for a trained model, looked at before the training."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer.saving.model_files import check_names, check_places, save


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none/model.keras", "there is no folder .*none"),
        ("folder.h5", "is a folder, name a file in it"),
        ("file", "is a file, and a SavedModel is a folder"),
        ("full", "this folder has something else in it"),
    ],
)
def test_a_place_that_could_not_be_written_is_refused_before_the_training(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("")
    with pytest.raises(UsageError, match=f"--save {tmp_path / name}: {said}"):
        check_places([tmp_path / name])


def test_a_name_says_the_format_and_stands_there_once() -> None:
    said = r"--save model.pb: end the name in .keras, .h5 or .weights.h5, or name a folder for a SavedModel"
    with pytest.raises(UsageError, match=said):
        check_names([Path("model.pb")])
    with pytest.raises(UsageError, match=r"--save model.keras is given twice"):
        check_names([Path("model.keras"), Path("model.keras")])


def test_a_saved_model_may_be_written_anew(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_text("")
    (tmp_path / "model.keras").write_text("")
    check_places([tmp_path / "model", tmp_path / "model.keras", tmp_path / "new", tmp_path / "model.weights.h5"])


def test_a_place_where_no_file_can_be_made_is_refused_before_the_training() -> None:
    with pytest.raises(UsageError, match=r"^--save /proc/served: no file can be made in /proc: No such file"):
        check_places([Path("/proc/served")])


@pytest.fixture
def model() -> Any:
    import tensorflow as tf

    return tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(2000)])


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:__array__ implementation", "ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.weights.h5", "model"])
def test_a_model_is_there_whole_or_as_it_was_before(name: str, model: Any, tmp_path: Path) -> None:
    path = tmp_path / name
    save(model, path)
    before = contents(path)
    assert before and [*tmp_path.iterdir()] == [path]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(TfscaleError, match=f"^--save {path}: cannot be written: File too large$"):
            save(model, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(path) == before and [*tmp_path.iterdir()] == [path]
    save(model, path)
    assert [*tmp_path.iterdir()] == [path] and contents(path).keys() == before.keys()


def contents(path: Path) -> dict[str, bytes]:
    """Return what is in a file, or in all files of a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


@pytest.mark.tensorflow
def test_hdf5_does_not_crash_at_the_end_of_a_process_whose_disk_was_full(tmp_path: Path) -> None:
    """It flushes an open file when the process ends: a write that fails then was a segmentation fault."""
    code = """
import pathlib, sys
import tensorflow as tf
from tfscale.core.errors import TfscaleError
from tfscale.trainer.saving.model_files import save
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(2000)])
try:
    save(model, pathlib.Path(sys.argv[1]))
except TfscaleError as error:
    print(error)
"""
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can be mounted only by root")
    path = tmp_path / "model.weights.h5"
    try:
        command = [sys.executable, "-c", code, path]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        left = [*tmp_path.iterdir()]
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert (ended.returncode, ended.stdout) == (0, f"--save {path}: cannot be written: No space left on device\n")
    assert "h5py" not in ended.stderr and not left
