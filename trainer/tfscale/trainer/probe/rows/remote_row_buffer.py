"""Rows of functions that run on other machines: each worker of ParameterServerStrategy keeps its own rows.

The chief traces one function for all workers, with the name of the staging area in its graph. Each worker has its own
area of this name, and a new area after it was killed and came back.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.rows.row_buffer import RowBuffer
from tfscale.trainer.probe.rows.row_layout import NO_ROWS
from tfscale.trainer.probe.rows.staging_area import StagingArea
from tfscale.trainer.tf_internals import ops


class RemoteRowBuffer(RowBuffer):
    """Rows on the worker that executes the graph; `read_worker` reads them.

    Args:
        accelerators: number of GPUs of each worker.
    """

    def __init__(self, accelerators: int = 0) -> None:
        # The name is new, as rows that another chief has left on a worker stay there.
        area = StagingArea(f"tfscale_{secrets.token_hex(8)}")
        super().__init__([f"/device:GPU:{index}" for index in range(accelerators)], area)

    def delays_whole_batch(self, batch: Sequence[tf.Tensor]) -> bool:  # noqa: ARG002
        """Return False: a chief does not know how many threads its workers have."""
        return False

    def stamp(
        self,
        after: Sequence[tf.Tensor | tf.Operation],
        enters: bool = False,  # noqa: ARG002
        carrier: tf.Tensor | None = None,  # noqa: ARG002
    ) -> tf.Operation:
        """Create the same op; there are no collectives to enter, and a staging area's stamps take no tensors."""
        return super().stamp(_one_of_each_server(after))

    def read(self) -> tuple[np.ndarray, int]:
        """Return no rows: none is staged in this process."""
        return NO_ROWS, 0

    def clear(self) -> None:
        """Do nothing: no row is staged in this process."""

    def read_worker(self) -> tuple[np.ndarray, int]:
        """Return the rows since the last read of the worker on whose device it is called, and the number of lost rows.

        Raises tf.errors.OpError where the worker no longer exists.
        """
        rows, lost, _ = self._rows.take()
        return rows, lost


def _one_of_each_server(after: Sequence[tf.Tensor | tf.Operation]) -> list[tf.Tensor | tf.Operation]:
    """Return the ops to wait for, with one op of each server in place of all its ops."""
    by_server: dict[str, list[tf.Tensor | tf.Operation]] = {}
    for dependency in after:
        by_server.setdefault(dependency.device if "/job:ps" in dependency.device else "", []).append(dependency)
    waited_for = by_server.pop("", [])
    for server, done in by_server.items():
        with ops.control_dependencies(None), ops.device(server), ops.control_dependencies(done):
            waited_for.append(tf.no_op())
    return waited_for
