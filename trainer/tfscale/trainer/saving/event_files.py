"""Event files, which TensorBoard reads: the loss of each epoch, and what the trained model makes of held out examples.

Only the task that leads writes them. If all workers did, into one folder, each curve would be there once for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf


class EventFiles:
    """Scalars of a run, by the number of steps that were made.

    Args:
        folder: where they go, None for nowhere.
        writes: whether this task writes.
    """

    def __init__(self, folder: Path | None, writes: bool) -> None:
        self._writer = tf.summary.create_file_writer(str(folder)) if folder is not None and writes else None

    def epoch(self, step: int, loss: float) -> None:
        """Write the mean loss of an epoch."""
        self._write(step, {"loss": loss})

    def end(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics over examples that were held out."""
        self._write(step, {f"held out {name}": value for name, value in metrics.items()})

    def _write(self, step: int, scalars: Mapping[str, float]) -> None:
        if self._writer is None:
            return
        with self._writer.as_default(step):
            for name, value in scalars.items():
                tf.summary.scalar(name, value)
        self._writer.flush()
