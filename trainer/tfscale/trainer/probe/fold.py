"""What was read, into steps: many usual ones at once, all others one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from tfscale.trainer.probe.plain import PARTS, StepColumns, UsualRow, are_usual, fold, usual_row
from tfscale.trainer.probe.row import NO_ROWS, together
from tfscale.trainer.probe.spans import Kind, Site, Span
from tfscale.trainer.probe.steps import Step, StepAssembler
from tfscale.trainer.probe.table import NO_SPANS, RowKinds, SpanTable, joined, numbers_in
from tfscale.trainer.probe.timeline import Interval

_MANY = 24
"""Steps from which on it is cheaper to take them together."""
_AT_ONCE = 64
"""Spans: some 0.3 ms of work."""
_BREATH = 0.0002
"""Seconds."""


class Fold:
    """Keeps what is not settled yet: a neighbour with an earlier end may still be on its way."""

    def __init__(self, sites: Sequence[Site], kinds: RowKinds, assembler: StepAssembler) -> None:
        self._sites = sites
        self._kinds = kinds
        self._assembler = assembler
        self._rows = NO_ROWS
        """Later than those of which the table tells."""
        self._table = NO_SPANS
        self._spans: list[Span] = []
        self._usual: UsualRow | None = None

    @property
    def usual(self) -> UsualRow | None:
        """What each of the rows that came last tells, where nothing but such rows is left."""
        return None if len(self._table.end) or self._spans else self._usual

    def take_rows(self) -> np.ndarray:
        """What is left of rows, for whoever goes on from here."""
        taken, self._rows = self._rows, NO_ROWS
        return taken

    def give_back(self, rows: np.ndarray) -> None:
        """Rows that were taken, and of which nothing was told."""
        self._rows = rows

    def feed(
        self, rows: np.ndarray, spans: Sequence[Span], pauses: Sequence[Interval], horizon: float
    ) -> Sequence[Step]:
        """The steps that were over by `horizon`, of what stamps and eager code told; `pauses` are what else the process
        did meanwhile."""
        self._rows = together([self._rows, rows])
        self._spans += spans
        self._usual = None if self._spans else self._usual_row()
        over = len(self._rows)
        if self._usual is not None:
            # Whole rows are kept, else spans.
            while over and self._rows[over - 1, self._usual.updated] > horizon:
                over -= 1
        settled, self._rows = self._rows[:over], self._rows[over:]
        self._table = joined([self._table, self._kinds.table(settled)])
        return self._of_spans(pauses, horizon)

    def _usual_row(self) -> UsualRow | None:
        kind = self._kinds.only(self._rows)
        return None if kind is None else usual_row(*kind)

    def _of_spans(self, pauses: Sequence[Interval], horizon: float) -> Sequence[Step]:
        until = None if self._spans else self._last_run(horizon)
        settled = self._settled(horizon if until is None else until)
        steps = None if until is None or pauses else self._together(settled)
        return self._one_by_one(settled, pauses, horizon) if steps is None else steps

    def _last_run(self, horizon: float) -> float | None:
        """The end of the last run by `horizon` where all is of usual steps, so that whole steps are settled."""
        numbers = numbers_in(self._table.site)
        if not are_usual([self._sites[number] for number in numbers]):
            return None
        is_run = np.zeros(len(self._sites), bool)
        is_run[[number for number in numbers if self._sites[number].kind is Kind.RUN]] = True
        ends = self._table.end[is_run[self._table.site]]
        return max(ends[ends <= horizon].tolist(), default=None)

    def _settled(self, until: float) -> SpanTable:
        """Those that ended by then, in this order; the others are kept."""
        over = self._table.end <= until
        settled, self._table = self._table.where(over), self._table.where(~over)
        return settled.where(np.argsort(settled.end, kind="stable"))

    def _together(self, spans: SpanTable) -> StepColumns | None:
        return fold(spans, self._sites, self._assembler) if len(spans.end) >= _MANY * PARTS else None

    def _one_by_one(self, table: SpanTable, pauses: Sequence[Interval], horizon: float) -> list[Step]:
        """The program, which may wait for the GIL meanwhile, gets it every now and then."""
        spans = [span for span in self._spans if span.end <= horizon] + table.spans(self._sites)
        self._spans = [span for span in self._spans if span.end > horizon]
        spans.sort(key=lambda span: span.end)
        steps = self._assembler.feed(spans[:_AT_ONCE], pauses)
        for first in range(_AT_ONCE, len(spans), _AT_ONCE):
            time.sleep(_BREATH)
            steps += self._assembler.feed(spans[first : first + _AT_ONCE])
        return steps
