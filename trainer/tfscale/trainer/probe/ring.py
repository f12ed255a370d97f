"""Rows in a ring of this process, which stamps of our own fill, for less than a staging area costs.

To read them costs next to nothing (docs/spikes/cost.md). The ring is `trainer/native/rows.c`.
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
from tfscale.trainer.probe.graph.independent_ops import independent
from tfscale.trainer.probe.native import library
from tfscale.trainer.probe.row import WIDTH, Taken, together
from tfscale.trainer.tf_internals import AttrValue, op_def_registry, ops

OP = "TfscaleStamp"
_BY_REFERENCE = (tf.resource, tf.variant)
_AT_ONCE = 1024
"""Rows that one call takes."""


class Ring:
    """The rows of this process: there is one, whose newest 65,536 wait to be read. Any thread may write, one reads."""

    def __init__(self, native: ctypes.CDLL) -> None:
        self._take = native.tfscale_take
        self._entered = native.tfscale_entered
        self._rows = np.empty((_AT_ONCE, WIDTH))
        self._address = self._rows.ctypes.data
        self._numbers = itertools.count()

    def stamp(self, enters: bool, of: tf.Tensor | None) -> tf.Operation:
        """The op of the graph being traced that takes the time, for the row in which it is to be written; where it can,
        it takes a tensor that it is `of`, and does nothing with it."""
        tensors = [] if of is None or of.dtype in _BY_REFERENCE else [of]
        return _made(tensors, {"row": -1, "places": 0, "whole": 0, "kind": 0}, timed=True, enters=enters)

    def write(self, kind: int, values: Sequence[tf.Operation | tf.Tensor]) -> None:
        """Have a row written, of the graph being traced, when all its stamps are taken and all its values known."""
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
            _made(tensors, {**row, "places": others}, timed=False, enters=False)

    def take(self) -> Taken:
        """The rows since the last call, the newest of those that were not taken in time, and what was entered."""
        parts, lost = [], ctypes.c_uint64()
        while True:
            taken = self._take(self._address, _AT_ONCE, ctypes.byref(lost))
            parts.append(self._rows[:taken].copy())
            if taken < _AT_ONCE:
                # Counted after the rows were taken: what was left had been entered before.
                return Taken(together(parts), lost.value, self._entered())

    def clear(self) -> None:
        """Forget what was written."""
        self.take()


def _made(tensors: Sequence[tf.Tensor], row: dict[str, int], **flags: bool) -> tf.Operation:
    attributes = {name: AttrValue(i=number) for name, number in row.items()}
    attributes |= {name: AttrValue(b=flag) for name, flag in flags.items()}
    types = AttrValue.ListValue(type=[tensor.dtype.as_datatype_enum for tensor in tensors])
    op = ops.get_default_graph().create_op(OP, tensors, [], attrs={**attributes, "T": AttrValue(list=types)})
    return independent(op)


@functools.cache
def ring() -> Ring | None:
    """The ring of this process, None where the library was not built, or was for other rows or another TensorFlow."""
    framework = next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.so.*"), None)
    found = library()
    # TensorFlow ends a process that registers an op twice.
    if framework is None or found is None or op_def_registry.get(OP) is not None:
        return None
    try:
        loaded = ctypes.CDLL(str(framework), os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    missing = found.tfscale_register(loaded._handle, WIDTH)
    return Ring(found) if missing is None else None
