"""Event files: what TensorBoard reads from them, and one line where they cannot be written."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from tfscale.core.errors import TfscaleError

pytestmark = pytest.mark.tensorflow


def test_tensorboard_shows_curves_that_were_written_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray
    from tfscale.trainer.saving.event_files import EventFiles

    # Without TensorBoard, TensorFlow has no such function.
    monkeypatch.delattr(tf.summary, "scalar", raising=False)
    events = EventFiles(tmp_path, writes=True)
    events.epoch(100, 0.5)
    events.end(100, {"accuracy": 0.25})
    read = EventAccumulator(str(tmp_path)).Reload()
    assert set(read.PluginTagToContent("scalars")) == {"loss", "held out accuracy"}
    (point,) = read.Tensors("loss")
    assert (point.step, make_ndarray(point.tensor_proto)) == (100, 0.5)


def test_a_folder_that_cannot_be_made_is_told() -> None:
    from tfscale.trainer.saving.event_files import EventFiles

    EventFiles(Path("/proc/x"), writes=False).epoch(1, 0.5)
    with pytest.raises(TfscaleError, match=r"^--tensorboard /proc/x: cannot be written: No such file or directory$"):
        EventFiles(Path("/proc/x"), writes=True)


def test_a_disk_that_gets_full_is_told(tmp_path: Path) -> None:
    from tfscale.trainer.saving.event_files import EventFiles

    events = EventFiles(tmp_path, writes=True)
    events.epoch(1, 0.5)
    (path,) = tmp_path.iterdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        with pytest.raises(TfscaleError, match=f"^--tensorboard {tmp_path}: cannot be written: File too large$"):
            for step in range(100):
                events.epoch(step, 0.5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
