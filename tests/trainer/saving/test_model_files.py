"""Places for a trained model, looked at before the training."""

from __future__ import annotations

from pathlib import Path

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
    with pytest.raises(UsageError, match=r"--save model.keras: stands there twice"):
        check_names([Path("model.keras"), Path("model.keras")])


def test_a_saved_model_may_be_written_anew(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_text("")
    (tmp_path / "model.keras").write_text("")
    check_places([tmp_path / "model", tmp_path / "model.keras", tmp_path / "new", tmp_path / "model.weights.h5"])


def test_a_disk_that_is_full_is_told_in_one_line(tmp_path: Path) -> None:
    class Full:
        def save(self, _: str) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(TfscaleError, match=r"model.keras: cannot be written: No space left on device$"):
        save(Full(), tmp_path / "model.keras")
