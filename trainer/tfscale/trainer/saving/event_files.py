"""Event files for TensorBoard: the loss of each epoch, and the metrics of the trained model on held-out examples.

Only the leading task writes them: if all workers wrote into one folder, each curve would be there once a worker.
`tf.summary.scalar` is TensorBoard's own, which TensorFlow 2.21 no longer installs; the files need TensorFlow alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from tfscale.core.errors import TfscaleError
from tfscale.trainer.saving.whole_files import reason

_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class="DATA_CLASS_SCALAR"
)
"""Mark by which TensorBoard shows a tensor as a curve."""


class EventFiles:
    """Scalars of a run, by the number of steps that were made.

    Args:
        folder: where they go, None for nowhere.
        writes: whether this task writes.

    Raises:
        TfscaleError: they cannot be written, now or later.
    """

    def __init__(self, folder: Path | None, writes: bool) -> None:
        self._folder = folder
        self._writer = None
        if folder is not None and writes:
            with self._refusal():
                self._writer = tf.summary.create_file_writer(str(folder))

    def epoch(self, step: int, loss: float) -> None:
        """Write the mean loss of an epoch."""
        self._write(step, {"loss": loss})

    def end(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics over examples that were held out."""
        self._write(step, {f"held out {name}": value for name, value in metrics.items()})

    def _write(self, step: int, scalars: Mapping[str, float]) -> None:
        if self._writer is None:
            return
        with self._refusal(), self._writer.as_default(step):
            for name, value in scalars.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)
            self._writer.flush()

    @contextlib.contextmanager
    def _refusal(self) -> Iterator[None]:
        try:
            yield
        except (tf.errors.OpError, OSError) as error:
            raise TfscaleError(f"--tensorboard {self._folder}: cannot be written: {reason(error)}") from None
