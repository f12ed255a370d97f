"""Layout of a row of stamps, wherever it waits to be read: float64 numbers, its kind and those of its spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WIDTH = 8
"""Numbers in a row; the last ones may be unused."""
NO_ROWS = np.empty((0, WIDTH))


class TakenRows(NamedTuple):
    """Rows that were written since the call before."""

    rows: np.ndarray
    """(k, WIDTH) float64, oldest first."""
    lost: int
    """Number of rows that were too many to be kept."""
    entered: int = 0
    """Number of collectives that were entered, those of the rows among them."""


def joined_rows(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the rows of one or more parts, one part after the other."""
    filled = [part for part in parts if len(part)]
    return np.concatenate(filled) if len(filled) > 1 else (filled or parts)[0]
