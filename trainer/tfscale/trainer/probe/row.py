"""What a row of stamps is, wherever it waits to be read: float64 numbers, its kind and those of its spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WIDTH = 8
"""Numbers in a row; those that are not used say nothing."""
NO_ROWS = np.empty((0, WIDTH))


class Taken(NamedTuple):
    """What was written since it was asked for last."""

    rows: np.ndarray
    """(k, WIDTH) float64, oldest first."""
    lost: int
    """Rows that were too many to be kept."""
    entered: int = 0
    """Collectives, those of the rows among them."""


def together(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of one or more parts, one part after the other."""
    filled = [part for part in parts if len(part)]
    return np.concatenate(filled) if len(filled) > 1 else (filled or parts)[0]
