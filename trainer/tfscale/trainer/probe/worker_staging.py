"""Rows of a function that runs on another machine: each worker of ParameterServerStrategy stages its own.

The chief traces one function for all workers, whose graph names the area; on each worker it is another one, also on a
worker that was killed and came back.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.area import Area
from tfscale.trainer.probe.row import NO_ROWS
from tfscale.trainer.probe.staging import Staging
from tfscale.trainer.tf_internals import ops


class WorkerStaging(Staging):
    """Stages on the worker that executes the graph; `read_worker` reads it.

    Args:
        accelerators: GPUs of each worker.
    """

    def __init__(self, accelerators: int = 0) -> None:
        # What another chief has left on a worker stays there.
        area = Area(f"tfscale_{secrets.token_hex(8)}")
        super().__init__([f"/device:GPU:{index}" for index in range(accelerators)], area)

    def holds_whole(self, batch: Sequence[tf.Tensor]) -> bool:  # noqa: ARG002
        """No: how many threads a worker has, its chief does not know."""
        return False

    def stamp(
        self,
        after: Sequence[tf.Tensor | tf.Operation],
        enters: bool = False,  # noqa: ARG002
        first: tf.Tensor | None = None,  # noqa: ARG002
    ) -> tf.Operation:
        """The same; nobody waits for others here, and so nothing is entered. Areas take no tensors."""
        return super().stamp(_one_of_each_server(after))

    def read(self) -> tuple[np.ndarray, int]:
        """Nothing: no row is staged in this process."""
        return NO_ROWS, 0

    def clear(self) -> None:
        """Nothing, for the same reason."""

    def read_worker(self) -> tuple[np.ndarray, int]:
        """Of the worker on whose device this is called: the rows since it was read last, and how many were too many.

        Raises tf.errors.OpError where there is no such worker any more.
        """
        rows, lost, _ = self._rows.take()
        return rows, lost


def _one_of_each_server(after: Sequence[tf.Tensor | tf.Operation]) -> list[tf.Tensor | tf.Operation]:
    """The same, but for what is done on servers: each tells once, when all of it is done there."""
    by_server: dict[str, list[tf.Tensor | tf.Operation]] = {}
    for each in after:
        by_server.setdefault(each.device if "/job:ps" in each.device else "", []).append(each)
    waited_for = by_server.pop("", [])
    for server, done in by_server.items():
        with ops.control_dependencies(None), ops.device(server), ops.control_dependencies(done):
            waited_for.append(tf.no_op())
    return waited_for
