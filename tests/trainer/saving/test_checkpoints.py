"""Checkpoints of a run, as objects."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest
from tfscale.core.errors import TfscaleError, UsageError

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


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (b"garbage", "the file checkpoint is unreadable"),
        (b"", "the file checkpoint is unreadable"),
        (b"\xff\xfe\x00", "the file checkpoint is unreadable"),
        (b'model_checkpoint_path: "ckpt-30"', "the file checkpoint names ckpt-30, which is not there"),
        (None, "has ckpt-20, and no file checkpoint"),
    ],
)
def test_a_run_does_not_begin_anew_where_its_checkpoints_cannot_be_found(
    state: bytes | None, said: str, tmp_path: Path
) -> None:
    _, first = checkpoints(tmp_path)
    first.save(10)
    first.save(20)
    (tmp_path / "checkpoint").unlink()
    if state is not None:
        (tmp_path / "checkpoint").write_bytes(state)
    with pytest.raises(ValueError, match=said) as refused:
        checkpoints(tmp_path)
    go_on = (
        'to go on from ckpt-20, let the file checkpoint be: model_checkpoint_path: "ckpt-20"; or name another folder'
    )
    assert str(refused.value).endswith(f"; {go_on}")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-20"')
    _, mended = checkpoints(tmp_path)
    mended.restore()
    assert mended.step == 20


def test_a_file_that_names_what_is_gone_is_refused_where_nothing_is_left(tmp_path: Path) -> None:
    _, first = checkpoints(tmp_path)
    first.save(10)
    for path in tmp_path.glob("ckpt-*"):
        path.unlink()
    said = r"^the file checkpoint names ckpt-10, which is not there; name another folder to begin anew$"
    with pytest.raises(ValueError, match=said):
        checkpoints(tmp_path)


@pytest.mark.parametrize("end", ["data-00000-of-00001", "index"])
@pytest.mark.parametrize("size", [0, 100])
def test_a_checkpoint_that_ends_too_early_is_refused(end: str, size: int, tmp_path: Path) -> None:
    _, first = checkpoints(tmp_path)
    first.save(10)
    first.save(20)
    os.truncate(tmp_path / f"ckpt-20.{end}", size)
    _, second = checkpoints(tmp_path)
    with pytest.raises(ValueError, match=r"^ckpt-20 is damaged; to go on from ckpt-10, let the file checkpoint be: "):
        second.restore()


def test_an_evaluator_refuses_what_is_damaged(tmp_path: Path) -> None:
    import tensorflow as tf
    from tfscale.trainer.programs import digits
    from tfscale.trainer.training.held_out import follow_checkpoints

    _, first = checkpoints(tmp_path)
    first.save(10)
    none = (None, None)
    os.truncate(tmp_path / "ckpt-10.data-00000-of-00001", 100)
    with pytest.raises(TfscaleError, match=f"^--checkpoints {tmp_path}: ckpt-10 is damaged, or was removed$"):
        follow_checkpoints(tf.keras, digits, tmp_path, 10, none)
    (tmp_path / "checkpoint").write_text("garbage")
    with pytest.raises(UsageError, match=f"^--checkpoints {tmp_path}: the file checkpoint is unreadable; "):
        follow_checkpoints(tf.keras, digits, tmp_path, 10, none)


@pytest.mark.parametrize("room", [0, 100, 300])
def test_a_checkpoint_that_finds_no_room_leaves_nothing_and_the_older_one_stays(room: int, tmp_path: Path) -> None:
    _, saved = checkpoints(tmp_path)
    saved.save(10)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(TfscaleError, match=f"^--checkpoints {tmp_path}: step 20 is not saved: File too large$"):
            saved.save(20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    saved.save(20)
    assert checkpoints(tmp_path)[1].step == 20
