"""Stamps inside TensorFlow graphs, and their rows that wait for the probe's thread.

Nothing that training computes depends on a stamp, so collectives never wait for a stamp.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.rows.awaited_ops import awaited
from tfscale.trainer.probe.rows.independent_ops import independent, outside
from tfscale.trainer.probe.rows.ring import Ring, ring
from tfscale.trainer.probe.rows.staging_area import StagingArea
from tfscale.trainer.tf_internals import gen_logging_ops, ops


class RowBuffer:
    """Rows of stamps of the graphs that run in this process, and the number of collectives entered.

    Args:
        accelerators: devices on which kernels are queued, by default the GPUs that TensorFlow uses.
        rows: where rows wait, by default this process's ring or, where there is none, a staging area.
    """

    def __init__(self, accelerators: Sequence[str] | None = None, rows: Ring | StagingArea | None = None) -> None:
        if accelerators is None:
            accelerators = [device.name for device in tf.config.list_logical_devices("GPU")]
        self._accelerators = tuple(accelerators)
        self._has_one_thread = _pool_threads() == 1
        self._rows = rows or ring() or StagingArea("tfscale")
        self.entered = 0
        """Collectives entered when the rows were last read, also while the main thread was blocked in one."""

    @property
    def is_compiled(self) -> bool:
        """True where stamps are ops of our own library."""
        return isinstance(self._rows, Ring)

    def stamp(
        self, after: Sequence[tf.Tensor | tf.Operation], enters: bool = False, carrier: tf.Tensor | None = None
    ) -> tf.Operation:
        """Create the op in the graph under trace that takes the Unix time at which all of `after` are done.

        When an op is done, TensorFlow schedules the ops that take its tensors before those that only wait for it. So a
        stamp for which other ops wait takes a tensor, if it can.

        Args:
            after: tensors and ops that the stamp waits for.
            enters: True if a collective is entered, and counted, at that time.
            carrier: the tensor of `after` that the stamp takes.
        """
        with outside(self._done_on_devices(awaited(after))):
            return self._rows.stamp(enters, None if carrier is None or not self._is_here(carrier) else carrier)

    def check(self, kind: int, tensors: Sequence[tf.Tensor]) -> tf.Operation | None:
        """Add an op to the graph being traced that writes a row of this kind unless all these tensors are finite.

        None where there is none: without the ring, and for tensors that would have to be copied from a GPU.
        """
        if self._accelerators or not all(_is_on_cpu(tensor) for tensor in tensors):
            return None
        # Beside the first tensor: between CPU devices of one process nothing is copied either.
        with tf.control_dependencies(None), tf.device(tensors[0].device or "/device:CPU:0"):
            return self._rows.check(kind, tensors)

    def delays_whole_batch(self, batch: Sequence[tf.Tensor]) -> bool:
        """Decide whether the whole batch must wait for its stamp, or its first component alone.

        When a batch is ready, each op that can go on becomes a job of TensorFlow's thread pool. If the whole batch
        waits, the stamp is the only job. That saves time if the pool has one thread. If it has several, the ops that
        wait for the stamp are handed from its thread to other threads, which have to wake up first.
        """
        return self._has_one_thread and all(map(self._is_here, batch))

    def _is_here(self, tensor: tf.Tensor) -> bool:
        """Decide whether an op on the first CPU can take the tensor without a copy."""
        spec = tf.DeviceSpec.from_string(tensor.device)
        return not self._accelerators and spec.device_type in (None, "CPU") and not spec.device_index

    def _done_on_devices(self, after: Sequence[tf.Tensor | tf.Operation]) -> Sequence[tf.Tensor | tf.Operation]:
        """Return the ops for a stamp that is taken when the kernels are done, not when they are queued.

        On a GPU the kernels of one stream are done in order. So when all of `after` have been queued, one more kernel
        is queued, whose result is copied to the host. An assertion there needs the copy: otherwise the graph would lose
        it.
        """
        devices = {device for dependency in after if (device := self._accelerator(dependency)) is not None}
        arrived = []
        for device in sorted(devices):
            with outside(after):
                seed = independent(gen_logging_ops.timestamp().op).outputs[0]
            with ops.control_dependencies(None), ops.device(device), ops.control_dependencies(list(after)):
                last = tf.abs(seed)
            with outside([]):
                arrived.append(independent(gen_logging_ops._assert(last > 0.0, [last])))
        return [*after, *arrived]

    def _accelerator(self, dependency: tf.Tensor | tf.Operation) -> str | None:
        """Return the accelerator that makes this tensor or runs this op, None on a CPU; if unknown, the first."""
        if not self._accelerators:
            return None
        if not dependency.device:
            return self._accelerators[0]
        spec = tf.DeviceSpec.from_string(dependency.device)
        kind, number = spec.device_type, spec.device_index
        found = (name for name in self._accelerators if name.endswith(f"{kind}:{number or 0}"))
        return next(found, None)

    def write(self, kind: int, values: Sequence[tf.Operation | tf.Tensor]) -> None:
        """Let the graph being traced write a row of this kind when all its values are known.

        Args:
            kind: number of the kind of row.
            values: at most WIDTH - 1 stamps, each of one row only, and float64 scalars.
        """
        with outside([]):
            self._rows.write(kind, values)

    def read(self) -> tuple[np.ndarray, int]:
        """Return the rows since the last read, and the number of lost rows."""
        rows, lost, entered = self._rows.take()
        self.entered += entered
        return rows, lost

    def clear(self) -> None:
        """Throw away the rows that wait."""
        self._rows.clear()


def _is_on_cpu(tensor: tf.Tensor) -> bool:
    return tf.DeviceSpec.from_string(tensor.device).device_type in (None, "CPU")


def _pool_threads() -> int:
    """Return the number of threads in which TensorFlow runs ops (`NumInterOpThreadsFromSessionOptions`)."""
    asked = tf.config.threading.get_inter_op_parallelism_threads()
    by_variable = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    return asked or (int(by_variable) if by_variable.isdigit() else len(os.sched_getaffinity(0)))
