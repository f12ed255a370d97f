"""The ring of a function that runs on another machine: each worker of ParameterServerStrategy has its own.

The chief traces one function for all workers, so its graph names the variables by a shared name, which each worker's
process resolves to its own. A worker makes them when its first row comes: also after it was killed and came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_resource_variable_ops
from tensorflow.python.ops.resource_variable_ops import ResourceVariable
from tfscale.trainer.probe.ring import NO_ROWS, ROWS, WIDTH, Ring, _free, number_at, rows_at

_ROWS_NAME, _WRITTEN_NAME = "tfscale_ring", "tfscale_written"


class WorkerRing(Ring):
    """Writes on the worker that executes the graph; `read_worker` reads it.

    Args:
        accelerators: GPUs of each worker.
    """

    def __init__(self, accelerators: int = 0) -> None:
        self._accelerators = tuple(f"/device:GPU:{index}" for index in range(accelerators))

    def stamp(self, after: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
        return super().stamp(_one_of_each_server(after))

    def enter(self, stamp: tf.Tensor) -> None:
        """Nobody waits for others here."""

    def _handles(self) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        rows, written = _rows_handle(), _written_handle()
        return rows, written, [_made(rows, written)]

    def read(self) -> tuple[np.ndarray, int]:
        """Nothing: no row is written in this process."""
        return NO_ROWS, 0

    def entered(self) -> int:
        return 0

    @property
    def variables(self) -> dict[str, ResourceVariable]:
        return {}


class Position(NamedTuple):
    """How many rows of a worker's ring have been read, and the first stamp of the last of them."""

    read: int = 0
    mark: float = 0.0


def read_worker(position: Position) -> tuple[np.ndarray, Position, int]:
    """Of the worker on whose device this is called: the rows after `position`, the new position, and how many rows
    were overwritten before they were read. A worker that was restarted meanwhile counts from 0 again.

    Raises tf.errors.OpError where there is no such ring, or no such worker any more.
    """
    written = number_at(_written_handle())
    last = position.read - 1
    if position.read and (last >= written or _rows(last, last + 1)[0][1] != position.mark):
        # Either the row was overwritten, or it is another process's.
        position = position if written > last + ROWS else Position()
    since = max(position.read, written - ROWS)
    rows = _rows(since, written)
    return rows, Position(written, rows[-1, 1]) if len(rows) else position, since - position.read


def _rows(since: int, until: int) -> np.ndarray:
    return rows_at(_rows_handle(), np.arange(since, until) & (ROWS - 1)) if since < until else NO_ROWS


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


def _made(rows: tf.Tensor, written: tf.Tensor) -> tf.Tensor:
    """After this op both variables are there."""

    def make() -> tf.Tensor:
        zeros = tf.zeros((ROWS, WIDTH), tf.float64)
        made = [
            gen_resource_variable_ops.assign_variable_op(rows, zeros),
            gen_resource_variable_ops.assign_variable_op(written, tf.zeros((), tf.int64)),
        ]
        with ops.control_dependencies(made):
            return tf.constant(True)

    there = _free(gen_resource_variable_ops.var_is_initialized_op(written))
    made = tf.cond(there, lambda: tf.constant(True), make)
    choice = made.op if made.op.type != "Identity" else made.op.inputs[0].op
    _free(choice)
    return made


def _rows_handle() -> tf.Tensor:
    return _handle((ROWS, WIDTH), tf.float64, _ROWS_NAME)


def _written_handle() -> tf.Tensor:
    return _handle((), tf.int64, _WRITTEN_NAME)


def _handle(shape: tuple[int, ...], dtype: tf.DType, name: str) -> tf.Tensor:
    handle = gen_resource_variable_ops.var_handle_op(shape=shape, dtype=dtype, shared_name=name)
    return handle if tf.executing_eagerly() else _free(handle)
