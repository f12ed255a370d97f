"""Kinds of rows, and the spans in rows as columns, without a Python object for each span."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tfscale.trainer.probe.process.clock import on_new_clock
from tfscale.trainer.probe.rows.spans import Site, Span


class SpanTable(NamedTuple):
    """Spans as arrays of equal length: the number of each span's site, and the fields of `Span`."""

    site: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    amount: np.ndarray

    def where(self, chosen: np.ndarray) -> SpanTable:
        """Return the spans that a mask or an array of indices chooses."""
        return SpanTable(*(column[chosen] for column in self))

    def spans(self, sites: Sequence[Site]) -> list[Span]:
        """Return the spans as objects."""
        rows = zip(*(column.tolist() for column in self), strict=True)
        return [Span(sites[number], begin, end, amount) for number, begin, end, amount in rows]


NO_SPANS = SpanTable(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))


def joined_tables(tables: Sequence[SpanTable]) -> SpanTable:
    """Return one table with the spans of all tables, in their order."""
    filled = [table for table in tables if len(table.end)]
    if len(filled) < 2:
        return filled[0] if filled else NO_SPANS
    return SpanTable(*map(np.concatenate, zip(*filled, strict=True)))


class Member(NamedTuple):
    """Span's part of a row: `width` numbers, those of begin, end and amount that it has."""

    site: Site
    width: int


class Places(NamedTuple):
    """Places of a span's numbers in a row; `amount` is 0 without one."""

    begin: int
    end: int
    amount: int


class RowKind:
    """Kind of row: its spans, and where the numbers of each stand."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.collectives = sum(member.site.collective for member in members)
        """Number of spans in which replicas exchange data."""
        self.spans: list[tuple[Site, Places]] = []
        place = 1
        for site, width in members:
            self.spans.append((site, Places(place, place + (width > 1), place + 2 if width > 2 else 0)))
            place += width
        self._sites = np.array([site.number for site, _ in self.spans])
        self._begins = [places.begin for _, places in self.spans]
        self._ends = [places.end for _, places in self.spans]

    def table(self, rows: np.ndarray) -> SpanTable:
        """Return the spans in rows of this kind."""
        amounts = np.zeros((len(rows), len(self.spans)))
        for index, (_, places) in enumerate(self.spans):
            if places.amount:
                amounts[:, index] = rows[:, places.amount]
        ends = rows[:, self._ends]
        # Nothing waits for the stamp at which a batch is asked for: it may be taken when the batch is there already.
        begins = np.minimum(rows[:, self._begins], ends)
        return SpanTable(np.tile(self._sites, len(rows)), begins.ravel(), ends.ravel(), amounts.ravel())

    def last_ends(self, rows: np.ndarray) -> np.ndarray:
        """Return the end of each row's last span."""
        ends: np.ndarray = rows[:, self._ends].max(axis=1)
        return ends


class RowKinds:
    """Kinds of all rows of this process: the first number of a row is the number of its kind."""

    def __init__(self) -> None:
        self._kinds: list[RowKind] = []
        self._lock = threading.Lock()

    def new_kind(self, members: Sequence[Member]) -> int:
        """Add a kind of row that holds these spans in this order, and return the number of the kind."""
        with self._lock:
            self._kinds.append(RowKind(members))
            return len(self._kinds) - 1

    def table(self, rows: np.ndarray) -> SpanTable:
        """Return the spans in rows of any kinds."""
        kinds = rows[:, 0].astype(np.int64)
        return joined_tables([self._kinds[number].table(rows[kinds == number]) for number in numbers_in(kinds)])

    def spans(self, number: int) -> list[tuple[Site, Places]]:
        """Return the spans of the kind of this number."""
        return self._kinds[number].spans

    def last_ends(self, rows: np.ndarray) -> np.ndarray:
        """Return the end of each row's last span."""
        kinds, ends = rows[:, 0].astype(np.int64), np.empty(len(rows))
        for number in numbers_in(kinds):
            ends[kinds == number] = self._kinds[number].last_ends(rows[kinds == number])
        return ends

    def on_new_clock(self, rows: np.ndarray, by: float, now: float) -> np.ndarray:
        """Return rows from before the clock was set by `by` seconds at `now`, with times of the new clock."""
        moved, kinds = np.array(rows), rows[:, 0].astype(np.int64)
        for number in numbers_in(kinds):
            places = sorted({place for _, each in self.spans(number) for place in (each.begin, each.end)})
            chosen = np.ix_(kinds == number, places)
            moved[chosen] = on_new_clock(moved[chosen], by, now)
        return moved

    def collectives(self, rows: np.ndarray) -> int:
        """Return the number of spans in these rows that are collectives."""
        counts = np.bincount(rows[:, 0].astype(np.int64)).tolist()
        return sum(count * self._kinds[number].collectives for number, count in enumerate(counts) if count)


def numbers_in(numbers: np.ndarray) -> list[int]:
    """Return each number that occurs, once, in ascending order."""
    occurring: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return occurring
