"""Steps of what was read: usual ones by the fast path, all others by the assembler."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from tfscale.trainer.probe import usual_steps
from tfscale.trainer.probe.spans import Kind, Site, Span
from tfscale.trainer.probe.steps import Step, StepAssembler
from tfscale.trainer.probe.table import NO_SPANS, RowKinds, SpanTable, joined_tables, numbers_in
from tfscale.trainer.probe.timeline import Interval

_BATCH = 64
"""Spans that the assembler is fed without a break: more than 0.3 ms of work."""
_BREAK_SECONDS = 0.0002
"""Break between two batches: the program may wait for the GIL meanwhile."""


class StepReader:
    """Keeps the spans that are not settled yet: a neighbour with an earlier end may still be on its way."""

    def __init__(self, sites: Sequence[Site], kinds: RowKinds, assembler: StepAssembler) -> None:
        self._sites = sites
        self._kinds = kinds
        self._assembler = assembler
        self._table = NO_SPANS
        """Spans of rows."""
        self._spans: list[Span] = []
        """Spans of eager code."""

    def read(
        self, rows: np.ndarray, spans: Sequence[Span], pauses: Sequence[Interval], horizon: float
    ) -> Sequence[Step]:
        """Return the steps that were over by `horizon`, in Unix seconds.

        `rows` and the `spans` of eager code came since the last call; `pauses` are what else the process did
        meanwhile.
        """
        self._table = joined_tables([self._table, self._kinds.table(rows)])
        self._spans += spans
        settled = self._settled(self._until(horizon))
        usual, taken = self._usual(settled, pauses)
        rest = self._others(settled.after(taken), pauses, horizon)
        return usual if usual is not None and not rest else [*(usual or ()), *rest]

    def _until(self, horizon: float) -> float:
        """Return the end of the last run by `horizon` where all spans are of usual steps, so that whole ones settle."""
        numbers = numbers_in(self._table.site)
        if self._spans or not usual_steps.are_usual([self._sites[number] for number in numbers]):
            return horizon
        is_run = np.zeros(len(self._sites), bool)
        is_run[[number for number in numbers if self._sites[number].kind is Kind.RUN]] = True
        ends = self._table.end[is_run[self._table.site]]
        return max(ends[ends <= horizon].tolist(), default=horizon)

    def _settled(self, until: float) -> SpanTable:
        """Take away the spans that ended by then, in the order of their ends."""
        over = self._table.end <= until
        settled, self._table = self._table.where(over), self._table.where(~over)
        return settled.where(np.argsort(settled.end, kind="stable"))

    def _usual(self, settled: SpanTable, pauses: Sequence[Interval]) -> tuple[usual_steps.UsualSteps | None, int]:
        """Assemble the usual steps before the first pause."""
        if self._spans:
            return None, 0
        if pauses:
            settled = settled.first(int(np.searchsorted(settled.end, min(pauses)[0], side="right")))
        return usual_steps.assemble(settled, self._sites, self._assembler)

    def _others(self, table: SpanTable, pauses: Sequence[Interval], horizon: float) -> list[Step]:
        spans = [span for span in self._spans if span.end <= horizon] + table.spans(self._sites)
        self._spans = [span for span in self._spans if span.end > horizon]
        spans.sort(key=lambda span: span.end)
        steps = self._assembler.feed(spans[:_BATCH], pauses)
        for first in range(_BATCH, len(spans), _BATCH):
            time.sleep(_BREAK_SECONDS)
            steps += self._assembler.feed(spans[first : first + _BATCH])
        return steps
