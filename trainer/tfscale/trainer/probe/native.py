"""The probe's C library (`trainer/native`), which is built when tfscale is installed, if there is a C compiler."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from tfscale.trainer.probe.steps import REMEMBERED

LIBRARY = Path(__file__).with_name("rows.so")


class Course(ctypes.Structure):
    """What each row of usual steps tells, and how far they were told (`steps.h`). Times are Unix seconds."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("moments", ctypes.c_int64 * 5),
        ("examples_place", ctypes.c_int64),
        ("bytes_place", ctypes.c_int64),
        ("collectives", ctypes.c_int64),
        ("counts", ctypes.c_int64),
        ("idle", ctypes.c_double),
        ("head", ctypes.c_char_p),
        ("head_length", ctypes.c_int64),
        ("sequence", ctypes.c_int64),
        ("iteration", ctypes.c_int64),
        ("exit", ctypes.c_double),
        ("updated", ctypes.c_double),
        ("reduced", ctypes.c_double),
        ("entered", ctypes.c_int64),
        ("left", ctypes.c_int64),
        ("waiting", ctypes.c_int64),
        ("entered_at", ctypes.c_double),
        ("most_examples", ctypes.c_double),
        ("newest_bytes", ctypes.c_double),
        ("most_bytes", ctypes.c_double),
        ("steps", ctypes.c_int64),
        ("lasted", ctypes.c_double * REMEMBERED),
    )


@functools.cache
def library() -> ctypes.CDLL | None:
    """None where it was not built, or for another version of tfscale."""
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        loaded.tfscale_course_size.restype = ctypes.c_uint64
        if loaded.tfscale_course_size() != ctypes.sizeof(Course):
            return None
        loaded.tfscale_register.restype = ctypes.c_char_p
        loaded.tfscale_register.argtypes = (ctypes.c_void_p, ctypes.c_int)
        loaded.tfscale_take.restype = ctypes.c_uint64
        loaded.tfscale_take.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
        loaded.tfscale_entered.restype = ctypes.c_uint64
        loaded.tfscale_steps.restype = ctypes.c_uint64
        loaded.tfscale_steps.argtypes = (
            ctypes.POINTER(Course),
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.c_double,
            ctypes.POINTER(ctypes.c_void_p),
        )
    except (OSError, AttributeError):
        return None
    return loaded
