"""Layout of a row of stamps: float64 numbers, the kind of the row and then the numbers of its spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WIDTH = 8
"""Numbers in a row; the last may be unused."""
NO_ROWS = np.empty((0, WIDTH))


class TakenRows(NamedTuple):
    """Rows that were written since the call before."""

    rows: np.ndarray
    """(k, WIDTH) float64, oldest first."""
    lost: int
    """Number of rows that were too many to be kept."""
    entered: int = 0
    """Number of collectives entered, including those in the rows."""


def joined_rows(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return one array with the rows of all parts, in their order."""
    filled = [part for part in parts if len(part)]
    return np.concatenate(filled) if len(filled) > 1 else (filled or parts)[0]
