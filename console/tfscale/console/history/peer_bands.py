"""Bands of a task's peers: second by second, between which values most of them are, by measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from tfscale.console.history.history import SECONDS, History, Seconds, Series
from tfscale.core.cluster.task import Task

LOW, MIDDLE, HIGH = range(3)
"""Places of the 10th percentile, the median and the 90th percentile in a band."""
_SHARES = (0.1, 0.5, 0.9)
_UNSETTLED = 4
"""Newest seconds that are read again: frames of some tasks come late, by less than that."""
_AT_ONCE = 400_000
"""Numbers that one call reads: of a thousand peers some 20 seconds, for which a key would wait 10 ms."""
_USUAL = 20
"""Measures that are usual."""


def measures_of(seconds: Seconds) -> dict[str, Series]:
    """Return each measure's series by its name: a field of `Seconds`, a part of a step, or a number of the training."""
    named = ("step_time", "longest", "gpu", "gpu_memory", "gpu_clock", "gpu_power", "gpu_temperature")
    fields = {name: getattr(seconds, name) for name in (*named, "cpu", "received", "sent")}
    return fields | dict(seconds.parts) | dict(seconds.training)


class PeerBands:
    """Bands of the peers of one task in one history, each (3, SECONDS); NaN where no peer has a value.

    What is known stays. Of many peers the older seconds come with the next calls, the newest first.
    """

    def __init__(self, history: History, peers: Sequence[Task]) -> None:
        self.history, self.peers = history, tuple(peers)
        self._bands: dict[str, Series] = {}
        self._first = self._end = 0
        """Unix seconds from which on, and before which, the bands are known."""

    def read(self, until: float, span: int) -> Mapping[str, Series]:
        """Return the bands of the SECONDS before `until` by measure; of many peers `span` of them after some calls."""
        last, known = int(until), self._end
        room = max(_UNSETTLED, _AT_ONCE // (max(len(self._bands), _USUAL) * max(len(self.peers), 1)))
        if not known <= last <= known + room:
            self._bands, self._first, self._end = {}, last, last
        if not self.peers:
            return self._bands
        if last > self._end:
            self._shift(last - self._end)
            self._end, self._first = last, max(self._first, last - SECONDS)
            self._fill(max(self._first, known - _UNSETTLED), last)
        if self._first > last - span:
            begin = max(last - span, self._first - room)
            self._fill(begin, self._first)
            self._first = begin
        return self._bands

    def is_whole(self, span: int) -> bool:
        """Return True once `span` seconds are known."""
        return not self.peers or self._end - self._first >= span

    def _shift(self, by: int) -> None:
        for band in self._bands.values():
            band[:, :-by] = band[:, by:]
            band[:, -by:] = np.nan

    def _fill(self, first: int, last: int) -> None:
        measures = measures_of(self.history.seconds_of(self.peers, last, last - first))
        known = {name: values for name, values in measures.items() if not np.isnan(values).all()}
        if not known:
            return
        place = SECONDS - self._end + first
        for name, band in zip(known, percentiles(np.stack([*known.values()])), strict=True):
            if name not in self._bands:
                self._bands[name] = np.full((len(_SHARES), SECONDS), np.nan, np.float32)
            self._bands[name][:, place : place + last - first] = band


def percentiles(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (m, 3, k) percentiles of the known values of n peers, (m, n, k): linear between two values, as numpy's."""
    # numpy's own nanpercentile takes a hundred times as long.
    ordered = np.sort(values, axis=1)
    last = np.maximum((~np.isnan(values)).sum(axis=1) - 1, 0)
    found = []
    for share in _SHARES:
        place = last * share
        below = place.astype(np.int64)
        low, high = (
            np.take_along_axis(ordered, at[:, None], axis=1)[:, 0] for at in (below, np.minimum(below + 1, last))
        )
        found.append(low + (high - low) * (place - below))
    return np.asarray(np.stack(found, axis=1), np.float32)


def held(values: Series, step_time: Series) -> Series:
    """Return a step's measure, (..., k), in each second in which the step was under way, not only in that of its end.

    `step_time` is (k,), seconds; a second before the first known value stays unknown.
    """
    count = len(step_time)
    at = np.arange(count)
    following = np.minimum.accumulate(np.where(np.isnan(step_time), count, at)[::-1])[::-1]
    place = np.minimum(following, count - 1)
    lasts = (following < count) & (following - at < np.nan_to_num(step_time[place]))
    return np.where(np.isnan(values) & lasts, values[..., place], values)
