"""Loader of the probe's C library (`trainer/native`), which is built with tfscale where there is a C compiler."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

LIBRARY = Path(__file__).with_name("libtfscale.so")


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None where it was not built, or was built for another version of tfscale."""
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        loaded.tfscale_register.restype = ctypes.c_char_p
        loaded.tfscale_register.argtypes = (ctypes.c_void_p, ctypes.c_int)
        loaded.tfscale_take.restype = ctypes.c_uint64
        loaded.tfscale_take.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
        loaded.tfscale_entered.restype = ctypes.c_uint64
        loaded.tfscale_usual_steps_layout.restype = ctypes.c_char_p
        loaded.tfscale_usual_steps.restype = ctypes.c_int64
        number, numbers, pointer = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
        seconds, edges = ctypes.c_double, ctypes.POINTER(ctypes.c_double)
        loaded.tfscale_usual_steps.argtypes = (
            *(pointer, numbers, number, seconds),
            *(pointer, number, seconds, seconds),
            *(numbers, edges, pointer, number),
        )
    except (OSError, AttributeError):
        return None
    return loaded
