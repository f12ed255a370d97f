"""Times of steps by the clock: with what lies idle between them, without what a training does beside its steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from tfscale.core.records.probe_status import ActivityKind

_Values = TypeVar("_Values", np.ndarray, Sequence[Any])
FEWEST_STEPS = 20
"""Steps of a run that is compared; the first tenth of them is left out."""


def step_times(ends: Sequence[float] | np.ndarray, apart: Iterable[tuple[float, float]]) -> np.ndarray:
    """Return the seconds from each end to the next.

    Args:
        ends: moments in Unix seconds at which steps of one process ended, in their order.
        apart: begin and end of what is no part of a step, such as compilation, evaluation and checkpoints.
    """
    moments = np.asarray(ends, dtype=float)
    times = np.diff(moments)
    for begin, end in apart:
        times -= np.clip(np.minimum(moments[1:], end) - np.maximum(moments[:-1], begin), 0.0, None)
    # Activities that overlap one another count once at least; a time is above 0 all the same.
    return np.maximum(times, 1e-9)


def is_apart(kind: str) -> bool:
    """Decide whether activities of a kind are no part of a step; idle time is, since a user waits for it."""
    return kind != ActivityKind.IDLE


def settled(values: _Values) -> _Values:
    """Return the values without those of the first tenth of the steps."""
    return values[len(values) // 10 :]
