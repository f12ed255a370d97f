"""`SidecarEvaluator` for Keras 3.0 to 3.15.1, which lack it; tf_keras has it."""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf


class SidecarEvaluator:
    """Evaluator, in a process of its own, of each checkpoint of a training in another process."""

    def __init__(
        self,
        model: Any,
        data: Any,
        checkpoint_dir: str,
        steps: int | None = None,
        max_evaluations: int | None = None,
        callbacks: Any = None,
    ) -> None:
        """Take a compiled `model`, and the `checkpoint_dir` to which a `tf.train.Checkpoint(model=...)` is saved.

        After the checkpoint with the number `max_evaluations`, which is counted from 1, `start` returns; None: never.
        """
        self.model = model
        self.data = data
        self.checkpoint_dir = checkpoint_dir
        self.steps = steps
        self.max_evaluations = max_evaluations
        self.callbacks = callbacks or []

    def start(self) -> None:
        """Evaluate each new checkpoint until the last one; skip a checkpoint that is deleted before it is read."""
        checkpoint = tf.train.Checkpoint(model=self.model)
        for path in tf.train.checkpoints_iterator(self.checkpoint_dir, min_interval_secs=1):
            try:
                checkpoint.restore(path).expect_partial()
            except (tf.errors.NotFoundError, ValueError) as error:
                print(f"SidecarEvaluator: {path} could not be read: {error}", flush=True)
                continue
            self.model.evaluate(self.data, steps=self.steps, callbacks=self.callbacks, verbose=2)
            number = re.search(r"-(\d+)$", path)
            if self.max_evaluations and number and int(number[1]) >= self.max_evaluations:
                return
