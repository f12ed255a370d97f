"""Rows in a staging area of TensorFlow: of a worker on another machine, or of this process if it has no ring.

The area belongs to the device that runs the graph, and is found by its name alone, so no variable has to be made before
a strategy, or exported with a function. It grows until it is read: it must be read, or emptied, as long as the process
lives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.rows.independent_ops import independent, outside
from tfscale.trainer.probe.rows.row_layout import NO_ROWS, WIDTH, TakenRows, joined_rows
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
"""Most rows of one read: those of 30,000 steps. If more are staged, none can be read, and all are lost."""
OP = "Stage"
_ENTERED = -1
"""Kind of a row that has nothing but its kind: a collective was entered."""
_TYPES = [tf.float64] * WIDTH
_BATCHES = (64, 16, 4, 1)
"""Numbers of rows that a function takes, with one function for each number."""


class StagingArea:
    """Staging area called `name`. Its rows are written and read on the device that runs the graphs."""

    def __init__(self, name: str) -> None:
        self._name = name

    def stamp(self, enters: bool, _carrier: tf.Tensor | None) -> tf.Operation:
        """Create the op in the graph under trace that takes the time.

        If it `enters` a collective, a row about it is staged at once.
        """
        stamp = independent(gen_logging_ops.timestamp().op)
        if enters:
            with outside([stamp]):
                self.write(_ENTERED, [])
        return stamp

    def write(self, kind: int, values: Sequence[tf.Operation | tf.Tensor]) -> None:
        """Let the graph being traced stage a row when all its values are known; nothing is copied, or blocks."""
        values = [value.outputs[0] if isinstance(value, tf.Operation) else value for value in values]
        first = tf.constant(kind, tf.float64)
        # The padding repeats a number of the row: each constant would be one op more.
        row = [first, *values, *[first] * (WIDTH - 1 - len(values))]
        independent(gen_data_flow_ops.stage(row, shared_name=self._name))

    def check(self, _kind: int, _tensors: Sequence[tf.Tensor]) -> None:
        """Return no op: a check would take several of TensorFlow's ops for each tensor here."""

    def take(self) -> TakenRows:
        """Take the rows since the last call away.

        Raises tf.errors.OpError where the device is on another machine and no longer exists.
        """
        with ops.device("/device:CPU:0"):
            left = int(gen_data_flow_ops.stage_size(_TYPES, shared_name=self._name).numpy())
            if left > MOST_ROWS:
                self.clear()
                return TakenRows(NO_ROWS, left)
            parts = [NO_ROWS]
            for count in _BATCHES:
                for _ in range(left // count):
                    (numbers,) = execute.execute(_taker(self._name, count), 1, [], None, context.context())
                    parts.append(numbers.numpy().reshape(-1, WIDTH))
                left %= count
        rows = joined_rows(parts)
        enters = rows[:, 0] == _ENTERED
        return TakenRows(rows[~enters], 0, int(np.count_nonzero(enters)))

    def clear(self) -> None:
        """Throw away the rows that wait."""
        with ops.device("/device:CPU:0"):
            gen_data_flow_ops.stage_clear(_TYPES, shared_name=self._name)


@functools.cache
def _taker(area: str, count: int) -> str:
    """Return the name of a TensorFlow function that takes `count` rows as one flat tensor, if so many are staged.

    It is written by hand: a trace would hold the program's GIL for 80 ms, and pass through the probe's own hooks.
    """
    name = f"__tfscale_take_{count}_of_{area}"
    function = FunctionDef()
    function.signature.name = name
    function.signature.is_stateful = True
    function.signature.output_arg.add(name="numbers", type=tf.float64.as_datatype_enum)
    types = AttrValue(list=AttrValue.ListValue(type=[tf.float64.as_datatype_enum] * WIDTH))
    sources = []
    for index in range(count):
        # One after the other, so that the oldest rows come first.
        row = function.node_def.add(name=f"row{index}", op="Unstage", input=[f"^row{index - 1}"] if index else [])
        row.attr["dtypes"].CopyFrom(types)
        row.attr["shared_name"].s = area.encode()
        sources += [f"row{index}:values:{place}" for place in range(WIDTH)]
    whole = function.node_def.add(name="whole", op="Pack", input=sources)
    whole.attr["N"].i = len(sources)
    whole.attr["T"].type = tf.float64.as_datatype_enum
    function.ret["numbers"] = "whole:output:0"
    context.context().add_function_def(function)
    return name
