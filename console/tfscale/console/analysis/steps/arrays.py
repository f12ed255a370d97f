"""Types of the arrays of steps, and checks of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tfscale.core.validation import LATEST

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]
_LONGEST = 1e9
"""Seconds from which on a duration is impossible."""


def valid_durations(seconds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the durations with NaN in place of impossible ones."""
    if not seconds.size or (seconds.min() >= 0 and seconds.max() < _LONGEST):
        return seconds
    return np.where((seconds >= 0) & (seconds < _LONGEST), seconds, np.float32(np.nan))


def valid_times(ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Unix seconds with NaN in place of impossible ones."""
    is_known = np.abs(ends) < LATEST
    return ends if is_known.all() else np.where(is_known, ends, np.nan)


def concatenated(columns: Sequence[Sequence[float]], lengths: Integers, kind: type[np.generic]) -> NDArray[Any]:
    """Return the values of several batches with these `lengths` as one array; an empty batch is unknown."""
    with suppress(TypeError):
        # Joining the bytes of arrays is several times as fast as np.concatenate.
        data = b"".join(columns)  # type: ignore[arg-type]
        if len(data) == lengths.sum() * np.dtype(kind).itemsize:
            return np.frombuffer(data, kind)
    pairs = zip(columns, lengths.tolist(), strict=True)
    return np.concatenate(
        [np.asarray(values, kind) if len(values) else np.full(long, np.nan, kind) for values, long in pairs]
    )
