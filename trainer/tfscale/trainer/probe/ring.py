"""Stamps inside TensorFlow graphs, written to a small ring variable that a thread reads now and then.

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
from tensorflow.python.ops import gen_bitwise_ops, gen_logging_ops, gen_resource_variable_ops, gen_state_ops
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

ROWS = 4096
"""A power of two. At 3 rows a step and 2 reads a second, enough for 2,700 steps a second."""
WIDTH = 12
"""Numbers in a row: which kind of row it is, and those of its spans."""
NO_ROWS = np.empty((0, WIDTH))

_ENDLESS = 2**62
MARK = "_independent_side_effects"
"""The attribute that `run_independently` sets: the ops made here have it."""


class Ring:
    """A variable of ROWS rows of stamps, and the number of collectives entered.

    Made at the first stamp of a trace: any variable made before the strategy would break the collectives' start-up.
    """

    def __init__(self, accelerators: Sequence[str] | None = None) -> None:
        """`accelerators` are the devices on which kernels are queued; by default the GPUs that TensorFlow uses."""
        if accelerators is None:
            accelerators = [device.name for device in tf.config.list_logical_devices("GPU")]
        self._accelerators = tuple(accelerators)
        with ops.init_scope(), ops.device("/device:CPU:0"):
            # ResourceVariable and not tf.Variable: a strategy's scope would make the latter a distributed one.
            self._rows = ResourceVariable(np.zeros((ROWS, WIDTH)), trainable=False, name="tfscale_ring")
            self._written = ResourceVariable(np.int64(0), trainable=False, name="tfscale_written")
            self._entered = ResourceVariable(np.int64(0), trainable=False, name="tfscale_entered")
        self._seen = np.zeros(ROWS)
        """The first stamp of each row as it was last read."""
        self._counted = 0
        self._awaited = np.empty(0, np.int64)

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
            _free(gen_state_ops.resource_count_up_to(self._entered.handle, limit=_ENDLESS, T=tf.int64))

    def write(self, number: int, values: Sequence[tf.Tensor]) -> None:
        """Record a row of this number when all of its values, at most WIDTH - 1 float64 scalars, are known."""
        with _beside([]):
            kind = tf.constant(float(number), tf.float64)
            # The padding repeats what is there: each constant would be one op more.
            row = tf.stack([kind, *values, *[kind] * (WIDTH - 1 - len(values))])
            rows, written, ready = self._handles()
            with ops.control_dependencies(ready):
                # count_up_to hands out each number once, which assign_add followed by a read would not.
                count = _free(gen_state_ops.resource_count_up_to(written, limit=_ENDLESS, T=tf.int64))
            slot = gen_bitwise_ops.bitwise_and(count, tf.constant(ROWS - 1, tf.int64))
            _free(gen_resource_variable_ops.resource_scatter_update(rows, slot, row))

    def _handles(self) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """Of the rows, of their count, and after what both can be used."""
        return self._rows.handle, self._written.handle, []

    def read(self) -> tuple[np.ndarray, int]:
        """The rows since the last read, and how many were overwritten before."""
        written = number_at(self._written.handle)
        first = max(self._counted, written - ROWS)
        lost = first - self._counted
        slots = np.append(self._awaited, np.arange(first, written) & (ROWS - 1))
        self._counted = written
        if not len(slots):
            return NO_ROWS, lost
        rows = rows_at(self._rows.handle, slots)
        # A row may still be on its way when its number is counted.
        arrived = rows[:, 1] != self._seen[slots]
        self._awaited = slots[~arrived]
        self._seen[slots] = rows[:, 1]
        return rows[arrived], lost

    @property
    def variables(self) -> dict[str, ResourceVariable]:
        """What graphs with stamps refer to, by name."""
        return {"rows": self._rows, "written": self._written, "entered": self._entered}

    def entered(self) -> int:
        """Collectives entered so far; readable while the main thread is blocked in one."""
        return number_at(self._entered.handle)


def is_own(op: tf.Operation) -> bool:
    """Whether an op was made here, and not by the program."""
    return op.type in ("ResourceCountUpTo", "ResourceScatterUpdate") and MARK in op.node_def.attr


def number_at(handle: tf.Tensor) -> int:
    """What an int64 scalar variable holds."""
    # By the op itself: a variable's own methods take several times as long, and the program waits for the GIL.
    return int(gen_resource_variable_ops.read_variable_op(handle, tf.int64).numpy())


def rows_at(handle: tf.Tensor, slots: np.ndarray) -> np.ndarray:
    """These rows of a ring, each of WIDTH float64."""
    rows: np.ndarray = gen_resource_variable_ops.resource_gather(handle, slots, tf.float64).numpy()
    return rows


@contextmanager
def _beside(after: Sequence[tf.Tensor | tf.Operation]) -> Iterator[None]:
    """Make ops on the CPU that wait for `after` and for nothing else around them."""
    with ops.control_dependencies(None), ops.device("/device:CPU:0"), ops.control_dependencies(list(after)):
        yield


def _free(made: tf.Tensor | tf.Operation) -> tf.Tensor:
    op = made if isinstance(made, tf.Operation) else made.op
    op.graph.experimental_acd_manager.run_independently(op)
    return made
