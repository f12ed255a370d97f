"""Sparklines: the course of a number in a few cells."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tfscale.console.tui.widgets.appearance.theme import Appearance

SECONDS = 60
"""Seconds that a sparkline covers."""
_FLAT = 0.2
"""Share of the value: a smaller spread is noise, and is drawn on a scale of this size."""


def sparklines(values: NDArray[np.float32], width: int, appearance: Appearance) -> list[str]:
    """Draw each of the (n, k) rows, oldest value first, in `width` cells of means; a row without values is empty.

    A row's scale goes from its least value to its largest, or wider if its spread is below `_FLAT`.
    """
    if not width:
        return [""] * len(values)
    cells = _means(values, width)
    low, high = (choose.reduce(cells, axis=1, keepdims=True) for choose in (np.fmin, np.fmax))
    levels = appearance.glyphs.levels
    spread = np.maximum(high - low, _FLAT * high)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(spread > 0, (cells - (low + high) / 2) / spread + 0.5, cells)
    empty = np.isnan(share)
    drawn = np.clip((np.where(empty, 0.0, share) * len(levels)).astype(int), 0, len(levels) - 1)
    drawn[empty] = len(levels)
    return ["".join(row) for row in np.array([*levels, " "])[drawn].tolist()]


def _means(values: NDArray[np.float32], width: int) -> NDArray[np.float64]:
    """Return the means of the known values by cell, (n, width)."""
    edges = _edges(values.shape[1], width)
    is_known = ~np.isnan(values)
    sums, counts = (_sums(addends)[:, edges] for addends in (np.where(is_known, values, 0.0), is_known))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.diff(sums) / np.diff(counts))


def _sums(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the cumulated sums, (n, k + 1), which begin with 0."""
    return np.pad(np.cumsum(values, axis=1, dtype=np.float64), ((0, 0), (1, 0)))


@lru_cache(maxsize=64)
def _edges(count: int, width: int) -> NDArray[np.int64]:
    """Return the indices at which the cells begin."""
    return np.linspace(0, count, width + 1).astype(np.int64)
