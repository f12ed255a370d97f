"""Rows in a ring of this process, which one op of a library of our own fills, for less than a staging area costs.

To read them costs next to nothing (docs/cost.md). The library (`trainer/native/rows.c`) is built when tfscale is
installed, if there is a C compiler.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.python.framework import op_def_registry, ops
from tfscale.trainer.probe.row import NO_ROWS, WIDTH

OP = "TfscaleRow"
LIBRARY = Path(__file__).with_name("rows.so")
_AT_ONCE = 1024
"""Rows that one call takes."""


class Ring:
    """The rows of this process: there is one, whose newest 65,536 wait to be read. Any thread may write, one reads."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._take = library.tfscale_take
        self._take.restype = ctypes.c_uint64
        self._take.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
        self._rows = np.empty((_AT_ONCE, WIDTH))

    def write(self, kind: int, values: Sequence[tf.Tensor]) -> tf.Operation:
        """The op of the graph being traced that writes a row when all values are known."""
        attributes = {"kind": AttrValue(i=kind), "N": AttrValue(i=len(values))}
        return ops.get_default_graph().create_op(OP, list(values), [], attrs=attributes)

    def take(self) -> tuple[np.ndarray, int]:
        """The rows since the last call, (k, WIDTH) float64, oldest first; and how many were written over."""
        parts, lost = [NO_ROWS], ctypes.c_uint64()
        while True:
            taken = self._take(self._rows.ctypes.data, _AT_ONCE, ctypes.byref(lost))
            parts.append(self._rows[:taken].copy())
            if taken < _AT_ONCE:
                return np.concatenate(parts), lost.value

    def clear(self) -> None:
        """Forget what was written."""
        self.take()


@functools.cache
def ring() -> Ring | None:
    """The ring of this process, None where the library was not built, or was for other rows or another TensorFlow."""
    framework = next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.so.*"), None)
    # TensorFlow ends a process that registers an op twice.
    if framework is None or not LIBRARY.exists() or op_def_registry.get(OP) is not None:
        return None
    try:
        loaded = ctypes.CDLL(str(framework), os.RTLD_NOLOAD | os.RTLD_LAZY)
        library = ctypes.CDLL(str(LIBRARY))
    except OSError:
        return None
    library.tfscale_register.restype = ctypes.c_char_p
    library.tfscale_register.argtypes = (ctypes.c_void_p, ctypes.c_int)
    missing = library.tfscale_register(loaded._handle, WIDTH)
    return Ring(library) if missing is None else None
