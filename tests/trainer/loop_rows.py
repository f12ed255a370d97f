"""A training loop's rows, as stamps would have written them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from hypothesis import strategies as st
from tfscale.trainer.probe.rows.row_kinds import Member, RowKinds
from tfscale.trainer.probe.rows.row_layout import NO_ROWS, WIDTH
from tfscale.trainer.probe.rows.spans import Counter, Distribution, Kind, Sites

MS = 0.001


class Loop:
    """The rows of a loop under MultiWorkerMirrored."""

    def __init__(self, collective: bool = True, sites: Sites | None = None, kinds: RowKinds | None = None) -> None:
        self.sites = sites or Sites()
        self.kinds = kinds or RowKinds()
        self.input = self.sites.traced(Kind.INPUT, examples=32)
        self.gradients = self.sites.traced(Kind.REDUCE, bytes=1000, in_run=True, collective=collective)
        self.run = self.sites.traced(Kind.RUN, trains=True, counter=Counter(7), distribution=Distribution("A", 2, 1))
        self.metric = self.sites.traced(Kind.REDUCE, bytes=4, overlaps_updates=True, collective=True)
        self.test = self.sites.traced(Kind.RUN)
        self.row = self._kind_of_step()
        self.row_of_metric = self.kinds.new_kind([Member(self.metric, 2)])
        self.row_of_two_metrics = self.kinds.new_kind([Member(self.metric, 2)] * 2)
        self.row_of_test = self.kinds.new_kind([Member(self.input, 2), Member(self.test, 1)])
        self.at = 1000.0
        self.overlaps = False
        """True if an iteration has begun before the one before it was over."""
        self.rows: list[tuple[float, list[float]]] = []
        """Rows, each with the time at which it was written."""
        self.steps = 0

    def _kind_of_step(self) -> int:
        return self.kinds.new_kind([Member(self.input, 3), Member(self.gradients, 3), Member(self.run, 1)])

    def trace_again(self) -> None:
        """Go on with another function of the same optimizer, as when the program is traced again."""
        collective = self.gradients.collective
        self.input = self.sites.traced(Kind.INPUT, examples=16)
        self.gradients = self.sites.traced(Kind.REDUCE, bytes=1000, in_run=True, collective=collective)
        self.run = self.sites.traced(
            Kind.RUN, trains=True, counter=self.run.counter, distribution=self.run.distribution
        )
        self.row = self._kind_of_step()

    def step(
        self,
        lengths: Sequence[float],
        amount: float = 0.0,
        waits: Sequence[tuple[float, float]] = (),
        late: float = 0.0,
    ) -> None:
        """Write a step of these five phases, and the reductions beside it.

        Args:
            lengths: milliseconds.
            waits: begin and length of each reduction, in parts of the step; two reductions share a row.
            late: milliseconds by which the batch's first stamp comes too late.
        """
        asked, ready, entered, reduced, updated = self.at + MS * np.cumsum(lengths)
        self.write(self.row, asked + MS * late, ready, amount, entered, reduced, 2 * amount, updated)
        self.steps += 1
        metrics = [self.at + part * (updated - self.at) for begin, length in waits for part in (begin, begin + length)]
        if metrics:
            self.write(self.row_of_metric if len(waits) == 1 else self.row_of_two_metrics, *metrics)
        self.at = updated

    def evaluation(self) -> None:
        self.write(self.row_of_test, self.at, self.at + MS, self.at + 2 * MS)
        self.at += 3 * MS

    def write(self, kind: int, *numbers: float) -> None:
        row = [kind, *numbers, *[0.0] * (WIDTH - 1 - len(numbers))]
        written = numbers[-1] if kind != self.row_of_two_metrics else max(numbers)
        self.rows.append((written, row))

    def read(self, since: float, until: float) -> np.ndarray:
        """Return the rows written between these times."""
        written = [row for row in self.rows if since < row[0] <= until]
        written.sort(key=itemgetter(0))
        return np.array([numbers for _, numbers in written]) if written else NO_ROWS


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    """Return a loop of mostly usual steps, with whatever may come between."""
    loop, metrics = Loop(draw(st.booleans())), draw(st.booleans())
    lengths = st.lists(st.integers(0, 9), min_size=5, max_size=5)
    parts = st.tuples(st.floats(0, 1), st.floats(0, 0.6))
    steps = draw(st.lists(st.tuples(lengths, st.lists(parts, max_size=2), st.integers(0, 40)), min_size=3, max_size=40))
    for each, waits, odd in steps:
        late = 3.0 * (odd in (12, 13))
        loop.step(each, amount=float(odd % 3), waits=waits if metrics and odd < 30 else (), late=late)
        if odd == 8:
            loop.trace_again()
        if odd == 9:
            loop.evaluation()
        if odd == 10:
            # The next batch is fetched ahead.
            loop.at -= 2 * MS
            loop.overlaps = True
        if odd == 11:
            loop.at += 1.5
    return loop


def usual(number: int, collective: bool = True) -> Loop:
    loop = Loop(collective)
    for each in range(number):
        loop.step((2, 3, 5, 20 + each % 3, 10), waits=[(0.3, 0.1)] if each % 5 == 0 else ())
    return loop
