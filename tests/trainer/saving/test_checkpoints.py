"""Checkpoints of a run, as objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def checkpoints(folder: Path, width: int = 4, keeps: bool = True) -> tuple[Any, Any]:
    import tensorflow as tf
    from tfscale.trainer.saving.checkpoints import Checkpoints

    keras = tf.keras
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(width), keras.layers.Dense(2)])
    return model, Checkpoints(folder, model, keras.optimizers.Adam(0.1), keeps)


def test_a_run_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    model, first = checkpoints(tmp_path)
    assert first.step == 0
    for step in range(10, 80, 10):
        model.set_weights([weight * 0 + step for weight in model.get_weights()])
        first.save(step)
    assert len(list(tmp_path.glob("ckpt-*.index"))) == 5
    other, second = checkpoints(tmp_path)
    second.restore()
    assert second.step == 70 and all((weight == 70).all() for weight in other.get_weights())


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    _, first = checkpoints(tmp_path)
    first.save(10)
    _, other = checkpoints(tmp_path, width=5)
    with pytest.raises(ValueError, match=r"ckpt-10 is of another model or optimizer; name another folder"):
        other.restore()


def test_a_task_that_keeps_nothing_writes_elsewhere(tmp_path: Path) -> None:
    _, worker = checkpoints(tmp_path / "shared", keeps=False)
    with worker._own as own:
        worker.save(10)
        assert any(Path(own).iterdir()) and not any((tmp_path / "shared").iterdir())
