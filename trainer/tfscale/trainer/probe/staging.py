"""Stamps inside TensorFlow graphs, staged in rows that a thread takes away now and then.

Nothing that training computes depends on a stamp, so collectives never wait for one. Every op made here is freed from
the automatic control dependencies of `tf.function`: chained like other stateful ops, stamps would wait for one another
and name the wrong replica (docs/spikes/phases.md).

A row is staged by one op that neither copies nor blocks. The area belongs to the device that runs the graph, by its
name alone: there is no variable that would have to be made before a strategy, or be exported with a function. It grows
until it is read, therefore it must be read, or emptied, as long as the process lives.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import ops
from tensorflow.python.framework.device_spec import DeviceSpecV2 as DeviceSpec
from tensorflow.python.ops import gen_data_flow_ops, gen_logging_ops

WIDTH = 8
"""Numbers in a row: which kind of row it is, and those of its spans."""
NO_ROWS = np.empty((0, WIDTH))
MOST_ROWS = 1 << 16
"""That are kept of one read: a second of 30,000 steps, or what was staged while nobody could read."""

MARK = "_independent_side_effects"
"""The attribute that `run_independently` sets: the ops made here have it."""
_ENTERED = -1.0
"""The kind of row that only says that a collective was entered."""
_TYPES = [tf.float64] * WIDTH
_AT_ONCE = (64, 16, 4, 1)
"""Rows that one function takes."""


class Staging:
    """Rows of stamps of the graphs that run in this process, and the number of collectives entered."""

    def __init__(self, accelerators: Sequence[str] | None = None, area: str = "tfscale") -> None:
        """`accelerators` are the devices on which kernels are queued; by default the GPUs that TensorFlow uses."""
        if accelerators is None:
            accelerators = [device.name for device in tf.config.list_logical_devices("GPU")]
        self._accelerators = tuple(accelerators)
        self._area = area
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
        self._stage(_ENTERED, [stamp])

    def write(self, number: int, values: Sequence[tf.Tensor]) -> None:
        """Record a row of this number when all of its values, at most WIDTH - 1 float64 scalars, are known."""
        self._stage(float(number), values)

    def _stage(self, kind: float, values: Sequence[tf.Tensor]) -> None:
        with _beside([]):
            first = tf.constant(kind, tf.float64)
            # The padding repeats what is there: each constant would be one op more.
            row = [first, *values, *[first] * (WIDTH - 1 - len(values))]
            _free(gen_data_flow_ops.stage(row, shared_name=self._area))

    def read(self) -> tuple[np.ndarray, int]:
        """The rows since the last read, and how many were too many to be read."""
        rows, lost = taken(self._area)
        enters = rows[:, 0] == _ENTERED
        self.entered += int(np.count_nonzero(enters))
        return rows[~enters], lost

    def clear(self) -> None:
        """Forget what was staged."""
        _clear(self._area)


def taken(area: str) -> tuple[np.ndarray, int]:
    """What was staged on this device, rows of WIDTH float64, oldest first; and how many rows were too many."""
    with ops.device("/device:CPU:0"):
        left = int(gen_data_flow_ops.stage_size(_TYPES, shared_name=area).numpy())
        if left > MOST_ROWS:
            _clear(area)
            return NO_ROWS, left
        parts = [NO_ROWS]
        for count in _AT_ONCE:
            for _ in range(left // count):
                (numbers,) = execute.execute(_taker(area, count), 1, [], None, context.context())
                parts.append(numbers.numpy().reshape(-1, WIDTH))
            left %= count
    return np.concatenate(parts), 0


def _clear(area: str) -> None:
    with ops.device("/device:CPU:0"):
        gen_data_flow_ops.stage_clear(_TYPES, shared_name=area)


@functools.cache
def _taker(area: str, count: int) -> str:
    """The name of a TensorFlow function that takes `count` rows out, which must be there, as one flat tensor.

    Written by hand: to trace it would take the program's GIL for 80 ms, and pass through the probe's own hooks.
    """
    name = f"__tfscale_take_{count}_of_{area}"
    made = FunctionDef()
    made.signature.name = name
    made.signature.is_stateful = True
    made.signature.output_arg.add(name="numbers", type=tf.float64.as_datatype_enum)
    types = AttrValue(list=AttrValue.ListValue(type=[tf.float64.as_datatype_enum] * WIDTH))
    sources = []
    for index in range(count):
        # One after the other, so that the oldest rows come first.
        row = made.node_def.add(name=f"row{index}", op="Unstage", input=[f"^row{index - 1}"] if index else [])
        row.attr["dtypes"].CopyFrom(types)
        row.attr["shared_name"].s = area.encode()
        sources += [f"row{index}:values:{place}" for place in range(WIDTH)]
    whole = made.node_def.add(name="whole", op="Pack", input=sources)
    whole.attr["N"].i = len(sources)
    whole.attr["T"].type = tf.float64.as_datatype_enum
    made.ret["numbers"] = "whole:output:0"
    context.context().add_function_def(made)
    return name


@contextmanager
def _beside(after: Sequence[tf.Tensor | tf.Operation]) -> Iterator[None]:
    """Make ops on the CPU that wait for `after` and for nothing else around them."""
    with ops.control_dependencies(None), ops.device("/device:CPU:0"), ops.control_dependencies(list(after)):
        yield


def _free(made: tf.Tensor | tf.Operation) -> tf.Tensor:
    op = made if isinstance(made, tf.Operation) else made.op
    op.graph.experimental_acd_manager.run_independently(op)
    return made
