"""Ring of this process (`trainer/native/ring.c`): rows that our own TensorFlow op fills, `TfscaleStamp`.

Its stamp costs less than one of a staging area, and reading the rows costs next to nothing (docs/reference/cost.md).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.rows.independent_ops import independent
from tfscale.trainer.probe.rows.native import library
from tfscale.trainer.probe.rows.row_layout import WIDTH, TakenRows, joined_rows
from tfscale.trainer.tf_internals import AttrValue, op_def_registry, ops

OP = "TfscaleStamp"
_BY_REFERENCE = (tf.resource, tf.variant)
_AT_ONCE = 1024
"""Most rows of one call: 64 KiB, the rows of a second of steps of 1 ms. Faster loops take several calls; room for
the whole ring would take 4 MiB in each process."""


class Ring:
    """Ring of this process, which keeps the newest 65,536 rows. Any thread may write, one thread reads."""

    def __init__(self, native: ctypes.CDLL) -> None:
        self._take = native.tfscale_take
        self._entered = native.tfscale_entered
        self._rows = np.empty((_AT_ONCE, WIDTH))
        self._address = self._rows.ctypes.data
        self._numbers = itertools.count()

    def stamp(self, enters: bool, carrier: tf.Tensor | None) -> tf.Operation:
        """Create the op of the graph being traced that takes the time.

        Args:
            enters: whether a collective is entered then.
            carrier: input of the op where it can be one; it only influences when TensorFlow schedules the op.
        """
        tensors = [] if carrier is None or carrier.dtype in _BY_REFERENCE else [carrier]
        return _stamp_op(tensors, {"row": -1, "places": 0, "whole": 0, "kind": 0}, timed=True, enters=enters)

    def write(self, kind: int, values: Sequence[tf.Operation | tf.Tensor]) -> None:
        """Let the graph being traced write a row when all its stamps are taken and all its values known."""
        row = {"row": next(self._numbers), "whole": (1 << len(values)) - 1, "kind": kind}
        places: dict[tf.Operation, int] = {}
        others = 0
        for place, value in enumerate(values):
            if isinstance(value, tf.Operation):
                places[value] = places.get(value, 0) | 1 << place
            else:
                others |= 1 << place
        for stamp, taken in places.items():
            for name, number in {**row, "places": taken}.items():
                stamp._set_attr(name, AttrValue(i=number))
        if others:
            tensors = [value for value in values if isinstance(value, tf.Tensor)]
            _stamp_op(tensors, {**row, "places": others}, timed=False, enters=False)

    def check(self, kind: int, tensors: Sequence[tf.Tensor]) -> tf.Operation:
        """Add an op to the graph being traced that writes a row of this kind unless all these tensors are finite.

        The row has the time, the index of the first tensor that is not, and how many are not.
        """
        row = {"row": -1, "places": 0, "whole": 0, "kind": kind}
        return _stamp_op(tensors, row, timed=False, enters=False, checks=True)

    def take(self) -> TakenRows:
        """Return the rows since the last call, and forget them; of too many, only the newest."""
        parts, lost = [], ctypes.c_uint64()
        while True:
            taken = self._take(self._address, _AT_ONCE, ctypes.byref(lost))
            parts.append(self._rows[:taken].copy())
            if taken < _AT_ONCE:
                # Counted after the rows were taken: what was left had been entered before.
                return TakenRows(joined_rows(parts), lost.value, self._entered())

    def clear(self) -> None:
        """Throw away the rows that wait."""
        self.take()


def _stamp_op(tensors: Sequence[tf.Tensor], row: dict[str, int], **flags: bool) -> tf.Operation:
    attributes = {name: AttrValue(i=number) for name, number in row.items()}
    attributes |= {name: AttrValue(b=flag) for name, flag in flags.items()}
    attributes["T"] = AttrValue(list=AttrValue.ListValue(type=[tensor.dtype.as_datatype_enum for tensor in tensors]))
    # Where XLA chooses ops to compile together (auto-jit), it leaves the stamps out: compiled, they would do nothing.
    attributes["_XlaCompile"] = AttrValue(b=False)
    op = ops.get_default_graph().create_op(OP, tensors, [], attrs=attributes)
    return independent(op)


@functools.cache
def ring() -> Ring | None:
    """Return the ring of this process.

    None where the library was not built, or was built for other rows or another TensorFlow.
    """
    framework = next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.so.*"), None)
    native = library()
    # TensorFlow ends a process that registers an op twice.
    if framework is None or native is None or op_def_registry.get(OP) is not None:
        return None
    try:
        loaded = ctypes.CDLL(str(framework), os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    missing = native.tfscale_register(loaded._handle, WIDTH)
    return Ring(native) if missing is None else None
