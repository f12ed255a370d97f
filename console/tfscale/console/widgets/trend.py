"""How a number went, in a few cells."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tfscale.console.widgets.look import Look

SECONDS = 60
"""How far back a trend goes."""
_FLAT = 0.2
"""Of the values: a smaller spread is noise, and is drawn as if it were this much."""


def sparkline(values: NDArray[np.float32], width: int, look: Look) -> str:
    """The (k,) values, oldest first, in `width` cells, each the mean of those in it; a cell without any is empty.

    From the least value to the most, but never from less than zero spread: what hardly moves is drawn flat.
    """
    cells = _means(values, width)
    known = cells[~np.isnan(cells)]
    if len(known) == 0:
        return " " * width
    levels = look.glyphs.levels
    low, high = float(known.min()), float(known.max())
    spread = max(high - low, _FLAT * high)
    middle = (low + high) / 2
    share = np.nan_to_num((cells - middle) / spread + 0.5 if spread > 0 else cells * 0)
    rows = np.clip((share * len(levels)).astype(int), 0, len(levels) - 1)
    return "".join(" " if np.isnan(cell) else levels[row] for cell, row in zip(cells, rows.tolist(), strict=True))


def _means(values: NDArray[np.float32], width: int) -> NDArray[np.float64]:
    edges = _edges(len(values), width)
    known = ~np.isnan(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0), dtype=np.float64)])
    counts = np.concatenate([[0], np.cumsum(known)])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.diff(sums[edges]) / np.diff(counts[edges]))


@lru_cache(maxsize=64)
def _edges(count: int, width: int) -> NDArray[np.int64]:
    """Where the cells begin among the values."""
    return np.linspace(0, count, width + 1).astype(np.int64)
