"""Checkpoints, event files and the model of `tfscale-train run`: who writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_training import train


@pytest.mark.tensorflow
def test_of_two_workers_one_writes_checkpoints_event_files_and_the_model(tmp_path: Path) -> None:
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
