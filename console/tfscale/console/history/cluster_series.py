"""The cluster's figures of the last hour, second by second, as they stood on the screen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

KEPT = 3600
"""Seconds that are kept."""
FIGURES = ("steps/s", "efficiency", "loss")


class ClusterSeries:
    """Steps a second, scaling efficiency and loss of each second; NaN unknown. Takes 58 kB."""

    def __init__(self) -> None:
        self._at = np.full(KEPT, -1, np.int64)
        """Unix second of each place."""
        self._values = np.full((len(FIGURES), KEPT), np.nan, np.float32)
        self.first: int | None = None
        """First second of which a figure is known; None before."""
        self.known = np.zeros(len(FIGURES), bool)
        """Whether each figure has ever been known."""

    def add(self, at: float, *figures: float | None) -> None:
        """Take in the figures of a moment, Unix seconds, in the order of `FIGURES`."""
        second, values = int(at), np.array(figures, np.float64)
        values[~(np.abs(values) <= np.finfo(np.float32).max)] = np.nan
        self._at[second % KEPT] = second
        self._values[:, second % KEPT] = values
        self.known |= ~np.isnan(values)
        if self.first is None and self.known.any():
            self.first = second

    def recall(self, second: int, figures: Sequence[float]) -> None:
        """Take in the figures of a second that another console has seen, where none are known."""
        if self._at[second % KEPT] < second:
            self.add(second, *figures)

    def kept(self) -> list[tuple[int, list[float]]]:
        """List the seconds that are known, Unix seconds in their order, with their figures."""
        places = [int(place) for place in np.argsort(self._at) if self._at[place] >= 0]
        return [(int(self._at[place]), self._values[:, place].tolist()) for place in places]

    def read(self, first: int, until: int) -> NDArray[np.float32]:
        """Return (figures, k): the seconds from `first` up to `until`, which is not among them."""
        places = np.arange(first, until) % KEPT
        is_kept = self._at[places] == np.arange(first, until)
        return np.where(is_kept, self._values[:, places], np.float32(np.nan))
