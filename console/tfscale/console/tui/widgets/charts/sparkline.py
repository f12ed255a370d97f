"""Sparklines: the lags of a minute in a few cells, all on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from statistics import median_low

import numpy as np
from numpy.typing import NDArray
from tfscale.console.tui.widgets.appearance.theme import HEAT, Appearance

SECONDS = 60
"""Seconds that a sparkline covers."""
_LEAST_SPAN = 1.5
"""Largest value of a scale over its least, at least: as on the heat map, so that noise is flat."""
PLAIN = -1
"""Colour of cells that are at the foot of the scale."""

_FAINTEST = 3
"""Index of the first colour in `HEAT` that a thin line on a dark background can have."""

Sparkline = tuple[tuple[str, int], ...]
"""Pieces of a sparkline: text, and the index of its colour in `HEAT`, or PLAIN."""
Scale = tuple[float, float]


def lag_scale(lags: Iterable[float | None]) -> Scale | None:
    """Return the scale of all sparklines, from the median lag to the longest; None where no lag is known."""
    known = [lag for lag in lags if lag]
    if not known:
        return None
    usual = median_low(known)
    return usual, max(_LEAST_SPAN * usual, *known)


def sparklines(values: NDArray[np.float32], width: int, scale: Scale, appearance: Appearance) -> list[Sparkline]:
    """Draw each of the (n, k) rows, oldest value first, in `width` cells of means; unknown cells are empty.

    A value below the scale stands at its foot. Without colours all pieces are plain.
    """
    if not width:
        return [()] * len(values)
    low, high = scale
    share = (_means(values, width) - low) / (high - low)
    empty = np.isnan(share)
    share[empty] = 0.0
    glyphs = np.array([*appearance.glyphs.levels, " "])
    levels = _index(share, len(appearance.glyphs.levels))
    colours = np.where((levels == 0) | appearance.letters, PLAIN, np.maximum(_index(share, len(HEAT)), _FAINTEST))
    levels[empty] = len(glyphs) - 1
    texts = ["".join(row) for row in glyphs[levels].tolist()]
    return [_pieces(text, row) for text, row in zip(texts, colours.tolist(), strict=True)]


def _index(share: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.clip((share * count).astype(np.int64), 0, count - 1)


def _pieces(text: str, colours: Sequence[int]) -> Sparkline:
    if max(colours) == PLAIN:
        return ((text, PLAIN),)
    runs = groupby(zip(text, colours, strict=True), key=lambda cell: cell[1])
    return tuple(("".join(sign for sign, _ in run), colour) for colour, run in runs)


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
