"""Stamps inside TensorFlow graphs, written in rows that a thread takes away now and then.

Nothing that training computes depends on a stamp, so collectives never wait for one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.area import Area
from tfscale.trainer.probe.graph.independent_ops import independent, outside
from tfscale.trainer.probe.ring import Ring, ring
from tfscale.trainer.tf_internals import gen_logging_ops, ops


class Staging:
    """Rows of stamps of the graphs that run in this process, and the number of collectives entered."""

    def __init__(self, accelerators: Sequence[str] | None = None, rows: Ring | Area | None = None) -> None:
        """`accelerators` are the devices on which kernels are queued, by default the GPUs that TensorFlow uses; `rows`
        is where rows go, by default this process's ring or, where there is none, a staging area."""
        if accelerators is None:
            accelerators = [device.name for device in tf.config.list_logical_devices("GPU")]
        self._accelerators = tuple(accelerators)
        self._one_by_one = _pool_threads() == 1
        self._rows = rows or ring() or Area("tfscale")
        self.entered = 0
        """Collectives entered when the rows were last read, also while the main thread was blocked in one."""

    def stamp(
        self, after: Sequence[tf.Tensor | tf.Operation], enters: bool = False, first: tf.Tensor | None = None
    ) -> tf.Operation:
        """The op of the graph being traced that takes the Unix time at which all of `after` are done, and counts a
        collective as entered then if it `enters` one.

        Of all that can go on when an op is done TensorFlow begins with what takes its tensors, and comes last to what
        only waits for it. A stamp for which others wait takes the tensor `first`, of `after`, if it can.
        """
        with outside(self._done_on_devices(after)):
            return self._rows.stamp(enters, None if first is None or not self._is_here(first) else first)

    def holds_whole(self, batch: Sequence[tf.Tensor]) -> bool:
        """Whether all of a batch is to wait for its stamp, and not its first component alone.

        What hands out a batch makes a job for TensorFlow's pool of each op that can go on then. Of a batch that waits
        there is one, the stamp. Where the pool has one thread, others only cost time. Where it has several, of what
        goes on from one job all but what is cheap is handed to another thread, which has to wake up for it.
        """
        return self._one_by_one and all(map(self._is_here, batch))

    def _is_here(self, tensor: tf.Tensor) -> bool:
        """Whether it need not be copied for an op on the first CPU."""
        spec = tf.DeviceSpec.from_string(tensor.device)
        return not self._accelerators and spec.device_type in (None, "CPU") and not spec.device_index

    def _done_on_devices(self, after: Sequence[tf.Tensor | tf.Operation]) -> Sequence[tf.Tensor | tf.Operation]:
        """What a stamp waits for so that it comes when the kernels are done, and not when they are queued.

        On a GPU the kernels of one stream are done in order. So after all of `after` were queued, one more kernel is,
        and its result comes to the host, where an assertion demands it: nothing less would keep the copy in the graph.
        """
        devices = {device for each in after if (device := self._accelerator(each)) is not None}
        arrived = []
        for device in sorted(devices):
            with outside(after):
                seed = independent(gen_logging_ops.timestamp().op).outputs[0]
            with ops.control_dependencies(None), ops.device(device), ops.control_dependencies(list(after)):
                last = tf.abs(seed)
            with outside([]):
                arrived.append(independent(gen_logging_ops._assert(last > 0.0, [last])))
        return [*after, *arrived]

    def _accelerator(self, each: tf.Tensor | tf.Operation) -> str | None:
        """The device on which this is made, where kernels are queued; where it was not said, the first such device."""
        if not self._accelerators:
            return None
        if not each.device:
            return self._accelerators[0]
        kind, number = (
            tf.DeviceSpec.from_string(each.device).device_type,
            tf.DeviceSpec.from_string(each.device).device_index,
        )
        found = (name for name in self._accelerators if name.endswith(f"{kind}:{number or 0}"))
        return next(found, None)

    @property
    def in_ring(self) -> bool:
        """Whether rows wait in this process's ring."""
        return isinstance(self._rows, Ring)

    def write(self, number: int, values: Sequence[tf.Operation | tf.Tensor]) -> None:
        """Record a row of this number when all of its values, at most WIDTH - 1, are known: stamps, each of one row
        only, and float64 scalars."""
        with outside([]):
            self._rows.write(number, values)

    def read(self) -> tuple[np.ndarray, int]:
        """The rows since the last read, and how many were too many to be read."""
        rows, lost, entered = self._rows.take()
        self.entered += entered
        return rows, lost

    def clear(self) -> None:
        """Forget what was written."""
        self._rows.clear()


def _pool_threads() -> int:
    """Threads in which TensorFlow runs ops beside each other (`NumInterOpThreadsFromSessionOptions`)."""
    asked = tf.config.threading.get_inter_op_parallelism_threads()
    by_variable = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    return asked or (int(by_variable) if by_variable.isdigit() else len(os.sched_getaffinity(0)))
