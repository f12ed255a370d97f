"""Many spans as columns: what staged rows say, without a Python object for each span."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tfscale.trainer.probe.spans import Site, Span


class SpanTable(NamedTuple):
    """Spans as arrays of equal length: the number of each one's site, and the fields of `Span`."""

    site: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    amount: np.ndarray

    def where(self, chosen: np.ndarray) -> SpanTable:
        """Those that a mask or a list of indices chooses."""
        return SpanTable(*(column[chosen] for column in self))

    def first(self, number: int) -> SpanTable:
        return SpanTable(*(column[:number] for column in self))

    def after(self, number: int) -> SpanTable:
        return SpanTable(*(column[number:] for column in self))

    def spans(self, sites: Sequence[Site]) -> list[Span]:
        """The same as objects."""
        rows = zip(*(column.tolist() for column in self), strict=True)
        return [Span(sites[number], begin, end, amount) for number, begin, end, amount in rows]


NO_SPANS = SpanTable(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))


def joined(tables: Sequence[SpanTable]) -> SpanTable:
    """All spans of these tables, one table after the other."""
    filled = [table for table in tables if len(table.end)]
    if len(filled) < 2:
        return filled[0] if filled else NO_SPANS
    return SpanTable(*map(np.concatenate, zip(*filled, strict=True)))


class Member(NamedTuple):
    """A span's part of a row: `width` numbers, of its begin, end and amount as many as there are."""

    site: Site
    width: int


class Fields(NamedTuple):
    """Where in a row a span's numbers stand; `amount` is None where it has none."""

    begin: int
    end: int
    amount: int | None


class RowKind:
    """A kind of row: where the numbers of each of its spans stand."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.spans: list[tuple[Site, Fields]] = []
        place = 1
        for site, width in members:
            self.spans.append((site, Fields(place, place + (width > 1), place + 2 if width > 2 else None)))
            place += width
        self.collectives = sum(member.site.collective for member in members)
        """Spans in which replicas meet."""
        self._sites = np.array([site.number for site, _ in self.spans])
        self._begins = [fields.begin for _, fields in self.spans]
        self._ends = [fields.end for _, fields in self.spans]

    def table(self, rows: np.ndarray) -> SpanTable:
        """What rows of this kind say."""
        amounts = np.zeros((len(rows), len(self.spans)))
        for index, (_, fields) in enumerate(self.spans):
            if fields.amount is not None:
                amounts[:, index] = rows[:, fields.amount]
        ends = rows[:, self._ends]
        # Nothing waits for the stamp at which a batch is asked for: it may be taken when the batch is there already.
        begins = np.minimum(rows[:, self._begins], ends)
        return SpanTable(np.tile(self._sites, len(rows)), begins.ravel(), ends.ravel(), amounts.ravel())


class RowKinds:
    """How sites share rows: each row has the number of its kind, and then the numbers of its spans."""

    def __init__(self) -> None:
        self._kinds: list[RowKind] = []
        self._lock = threading.Lock()

    def add(self, members: Sequence[Member]) -> int:
        """The number of a new kind of row, which holds these spans in this order."""
        with self._lock:
            self._kinds.append(RowKind(members))
            return len(self._kinds) - 1

    def table(self, rows: np.ndarray) -> SpanTable:
        """What rows say."""
        numbers = rows[:, 0].astype(np.int64)
        return joined([self._kinds[number].table(rows[numbers == number]) for number in numbers_in(numbers)])

    def collectives(self, rows: np.ndarray) -> int:
        """Spans in which replicas meet, in all these rows."""
        counts = np.bincount(rows[:, 0].astype(np.int64)).tolist()
        return sum(count * kind.collectives for count, kind in zip(counts, self._kinds, strict=False))


def numbers_in(numbers: np.ndarray) -> list[int]:
    """Each number that occurs, once."""
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return found
