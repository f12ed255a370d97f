"""Rows in a staging area of TensorFlow's: of another machine's worker, or of this process where it has no ring.

The area belongs to the device that runs the graph, by its name alone: there is no variable that would have to be made
before a strategy, or be exported with a function. It grows until it is read, therefore it must be read, or emptied, as
long as the process lives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.graph.independent_ops import independent, outside
from tfscale.trainer.probe.row import NO_ROWS, WIDTH, Taken, together
from tfscale.trainer.tf_internals import (
    AttrValue,
    FunctionDef,
    context,
    execute,
    gen_data_flow_ops,
    gen_logging_ops,
    ops,
)

MOST_ROWS = 1 << 16
"""That are kept of one read: a second of 30,000 steps, or what was staged while nobody could read."""
OP = "Stage"
_ENTERED = -1
"""The kind of row that only says that a collective was entered."""
_TYPES = [tf.float64] * WIDTH
_AT_ONCE = (64, 16, 4, 1)
"""Rows that one function takes."""


class Area:
    """The staging area of this name on the device on which its graphs run, and on which it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def stamp(self, enters: bool, _of: tf.Tensor | None) -> tf.Operation:
        """The op of the graph being traced that takes the time; an entering is staged at once, as a row."""
        stamp = independent(gen_logging_ops.timestamp().op)
        if enters:
            with outside([stamp]):
                self.write(_ENTERED, [])
        return stamp

    def write(self, kind: int, values: Sequence[tf.Operation | tf.Tensor]) -> None:
        """Have a row staged, in the graph being traced, once all values are known: no copy, no blocking."""
        values = [value.outputs[0] if isinstance(value, tf.Operation) else value for value in values]
        first = tf.constant(kind, tf.float64)
        # The padding repeats what is there: each constant would be one op more.
        row = [first, *values, *[first] * (WIDTH - 1 - len(values))]
        independent(gen_data_flow_ops.stage(row, shared_name=self._name))

    def take(self) -> Taken:
        """What was staged since the last call.

        Raises tf.errors.OpError where the device is another machine's and is not there any more.
        """
        with ops.device("/device:CPU:0"):
            left = int(gen_data_flow_ops.stage_size(_TYPES, shared_name=self._name).numpy())
            if left > MOST_ROWS:
                self.clear()
                return Taken(NO_ROWS, left)
            parts = [NO_ROWS]
            for count in _AT_ONCE:
                for _ in range(left // count):
                    (numbers,) = execute.execute(_taker(self._name, count), 1, [], None, context.context())
                    parts.append(numbers.numpy().reshape(-1, WIDTH))
                left %= count
        rows = together(parts)
        enters = rows[:, 0] == _ENTERED
        return Taken(rows[~enters], 0, int(np.count_nonzero(enters)))

    def clear(self) -> None:
        """Forget what was staged."""
        with ops.device("/device:CPU:0"):
            gen_data_flow_ops.stage_clear(_TYPES, shared_name=self._name)


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
