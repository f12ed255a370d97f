"""Names of checkpoints that Keras 3 refuses, and the files that they become."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from tfscale.trainer.compat.listings import checkpoint_names


@pytest.mark.parametrize(
    ("name", "only_weights", "completed"),
    [
        ("ckpt_{epoch}", True, "ckpt_{epoch}.weights.h5"),
        ("model.h5", True, "model.weights.h5"),
        ("a.weights.h5", True, "a.weights.h5"),
        ("model_{epoch}", False, "model_{epoch}.keras"),
        ("model.h5", False, "model.h5"),
        ("model.keras", False, "model.keras"),
    ],
)
def test_only_names_that_are_refused_get_an_ending(name: str, only_weights: bool, completed: str) -> None:
    assert checkpoint_names._completed(name, only_weights) == completed
    assert checkpoint_names._completed(Path(name), only_weights) in (completed, Path(completed))


def test_the_newest_weights_are_found_where_tensorflow_finds_no_checkpoint(tmp_path: Path) -> None:
    found = {"of TensorFlow": "ckpt-3", "empty": None}
    train = SimpleNamespace(latest_checkpoint=lambda folder, _: found[Path(folder).name])
    checkpoint_names.repair_search(SimpleNamespace(train=train))
    for folder in found:
        (tmp_path / folder).mkdir()
        for age, epoch in enumerate((2, 1)):
            path = tmp_path / folder / f"ckpt_{epoch}.weights.h5"
            path.touch()
            os.utime(path, (100 - age, 100 - age))
    assert train.latest_checkpoint(str(tmp_path / "of TensorFlow")) == "ckpt-3"
    assert train.latest_checkpoint(tmp_path / "empty") == str(tmp_path / "empty" / "ckpt_2.weights.h5")
