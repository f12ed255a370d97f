"""Stamps inside TensorFlow graphs, written in rows that a thread takes away now and then.

Nothing that training computes depends on a stamp, so collectives never wait for one. Every op made here is freed from
the automatic control dependencies of `tf.function`: chained like other stateful ops, stamps would wait for one another
and name the wrong replica (docs/spikes/phases.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.device_spec import DeviceSpecV2 as DeviceSpec
from tensorflow.python.ops import gen_logging_ops
from tfscale.trainer.probe.area import Area
from tfscale.trainer.probe.ring import Ring, ring

MARK = "_independent_side_effects"
"""The attribute that `run_independently` sets: the ops made here have it."""
_ENTERED = -1
"""The kind of row that only says that a collective was entered."""


class Staging:
    """Rows of stamps of the graphs that run in this process, and the number of collectives entered."""

    def __init__(self, accelerators: Sequence[str] | None = None, rows: Ring | Area | None = None) -> None:
        """`accelerators` are the devices on which kernels are queued, by default the GPUs that TensorFlow uses; `rows`
        is where rows go, by default this process's ring or, where there is none, a staging area."""
        if accelerators is None:
            accelerators = [device.name for device in tf.config.list_logical_devices("GPU")]
        self._accelerators = tuple(accelerators)
        self._rows = rows or ring() or Area("tfscale")
        self.entered = 0
        """Collectives entered when the rows were last read, also while the main thread was blocked in one."""

    def stamp(self, after: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
        """The Unix time at which all of `after` are done, as a float64 scalar of the graph being traced."""
        with _beside(self._done_on_devices(after)):
            return _free(gen_logging_ops.timestamp())

    def _done_on_devices(self, after: Sequence[tf.Tensor | tf.Operation]) -> Sequence[tf.Tensor | tf.Operation]:
        """What a stamp waits for so that it comes when the kernels are done, and not when they are queued.

        On a GPU the kernels of one stream are done in order. So after all of `after` were queued, one more kernel is,
        and its result comes to the host, where an assertion demands it: nothing less would keep the copy in the graph.
        """
        devices = {device for each in after if (device := self._accelerator(each)) is not None}
        arrived = []
        for device in sorted(devices):
            with _beside(after):
                seed = _free(gen_logging_ops.timestamp())
            with ops.control_dependencies(None), ops.device(device), ops.control_dependencies(list(after)):
                last = tf.abs(seed)
            with _beside([]):
                arrived.append(_free(gen_logging_ops._assert(last > 0.0, [last])))
        return [*after, *arrived]

    def _accelerator(self, each: tf.Tensor | tf.Operation) -> str | None:
        """The device on which this is made, where kernels are queued; where it was not said, the first such device."""
        if not self._accelerators:
            return None
        if not each.device:
            return self._accelerators[0]
        kind, number = DeviceSpec.from_string(each.device).device_type, DeviceSpec.from_string(each.device).device_index
        found = (name for name in self._accelerators if name.endswith(f"{kind}:{number or 0}"))
        return next(found, None)

    def enter(self, stamp: tf.Tensor) -> None:
        """Count a collective as entered at `stamp`."""
        with _beside([stamp.op]):
            _free(self._rows.write(_ENTERED, []))

    def write(self, number: int, values: Sequence[tf.Tensor]) -> None:
        """Record a row of this number when all of its values, at most WIDTH - 1 float64 scalars, are known."""
        with _beside([]):
            _free(self._rows.write(number, values))

    def read(self) -> tuple[np.ndarray, int]:
        """The rows since the last read, and how many were too many to be read."""
        rows, lost = self._rows.take()
        enters = rows[:, 0] == _ENTERED
        self.entered += int(np.count_nonzero(enters))
        return rows[~enters], lost

    def clear(self) -> None:
        """Forget what was written."""
        self._rows.clear()


@contextmanager
def _beside(after: Sequence[tf.Tensor | tf.Operation]) -> Iterator[None]:
    """Make ops on the CPU that wait for `after` and for nothing else around them."""
    with ops.control_dependencies(None), ops.device("/device:CPU:0"), ops.control_dependencies(list(after)):
        yield


def _free(made: tf.Tensor | tf.Operation) -> tf.Tensor:
    op = made if isinstance(made, tf.Operation) else made.op
    op.graph.experimental_acd_manager.run_independently(op)
    return made
