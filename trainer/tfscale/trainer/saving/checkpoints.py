"""Checkpoints of a run: model and optimizer after each epoch, and the one from which a run goes on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

KEPT = 5
"""Newest checkpoints that are kept; an evaluator reads them meanwhile."""


class Checkpoints:
    """Checkpoints in a folder that all tasks of a run share; without a folder nothing is saved.

    Args:
        folder: where they are, None for nowhere.
        model: built.
        optimizer: its variables are made here, in the strategy's scope, if they are not there yet.
        keeps: whether what this task saves is kept. All workers save, since reading a variable may need all of them.
    """

    def __init__(self, folder: Path | None, model: Any, optimizer: Any, keeps: bool) -> None:
        self._folder = folder
        self.step = 0
        """Step after which the newest checkpoint was saved, 0 without one."""
        if folder is None:
            return
        optimizer.build(model.trainable_variables)
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        self._own = None if keeps else tempfile.TemporaryDirectory(prefix="tfscale-not-kept-")
        place = folder if self._own is None else Path(self._own.name)
        self._manager = tf.train.CheckpointManager(self._checkpoint, str(place), max_to_keep=KEPT)
        if newest := tf.train.latest_checkpoint(str(folder)):
            self.step = step_of(newest)

    def restore(self) -> None:
        """Restore the newest checkpoint, if there is one. Raises ValueError where it is of another model."""
        if self._folder is None or not self.step:
            return
        path = tf.train.latest_checkpoint(str(self._folder))
        try:
            self._checkpoint.restore(path).assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.OpError):
            raise ValueError(f"{path} is of another model or optimizer: name another folder") from None

    def save(self, step: int) -> None:
        """Save after so many steps."""
        if self._folder is not None:
            self._manager.save(checkpoint_number=step)


def step_of(path: str) -> int:
    """Return the step after which a checkpoint of this path was saved."""
    return int(path.rpartition("-")[2])
