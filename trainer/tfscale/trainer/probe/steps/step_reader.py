"""Reader that makes steps of rows and spans: usual steps by the fast path, all others by the assembler."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from tfscale.trainer.probe.process.clock import on_new_clock
from tfscale.trainer.probe.rows.row_kinds import RowKinds, SpanTable, joined_tables, numbers_in
from tfscale.trainer.probe.rows.row_layout import NO_ROWS, joined_rows
from tfscale.trainer.probe.rows.spans import Kind, Site, Span
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.timeline import Interval
from tfscale.trainer.probe.steps.usual_steps import FastPath, are_usual

_BATCH = 64
"""Spans that the assembler gets without a break: more than 0.3 ms of work."""
_MOST_ROWS = 4096
"""Most rows that wait for a run: a program may reduce for ever without a run. They are the rows of a thousand steps;
fewer would drop those of a late run, more would only fill memory."""
_BREAK_SECONDS = 0.0002
"""Break between two batches: the program may wait for the GIL meanwhile."""


class StepReader:
    """Reader that keeps young spans: a span with an earlier end may still be on its way."""

    def __init__(self, sites: Sequence[Site], kinds: RowKinds, assembler: StepAssembler) -> None:
        self._sites = sites
        self._kinds = kinds
        self._assembler = assembler
        self._fast_path = FastPath(sites, kinds, assembler)
        self._rows = NO_ROWS
        self._partly_taken = 0
        """Number of rows, from the first on, whose spans up to `_until` were taken."""
        self._until = -math.inf
        self._spans: list[Span] = []
        """Spans of eager code."""

    def read(
        self, rows: np.ndarray, spans: Sequence[Span], pauses: Sequence[Interval], horizon: float
    ) -> Sequence[Step]:
        """Return the steps that were over by `horizon`, in Unix seconds.

        `rows` and the `spans` of eager code came since the last call; `pauses` are the process's other activities
        meanwhile.
        """
        self._rows = joined_rows([self._rows, rows])
        self._spans += spans
        usual, is_complete = self._usual(pauses, horizon)
        if is_complete:
            return usual
        others = self._others(pauses, horizon)
        return [*usual, *others] if others else usual

    def set_clock(
        self, rows: np.ndarray, spans: Sequence[Span], by: float, now: float
    ) -> tuple[np.ndarray, list[Span]]:
        """Go on after the clock was set `by` seconds; return the rows and spans with times of the new clock.

        Otherwise the last stamps before a clock was set back would wait until it is as late again.
        """
        self._assembler.forget_times()
        self._until += by
        self._rows = self._kinds.on_new_clock(self._rows, by, now)
        self._spans = [_on_new_clock(span, by, now) for span in self._spans]
        return self._kinds.on_new_clock(rows, by, now), [_on_new_clock(span, by, now) for span in spans]

    def _usual(self, pauses: Sequence[Interval], horizon: float) -> tuple[Sequence[Step], bool]:
        """Return the usual steps before the first pause, and whether that is all."""
        if self._spans:
            return [], False
        before = min([horizon, *(begin for begin, _ in pauses)])
        steps, rows, is_complete = self._fast_path.cut_usual(self._rows, self._partly_taken, self._until, before)
        if steps is not None and (tail := self._assembler.tail) is not None:
            self._rows, self._partly_taken, self._until = rows, len(rows), tail.updated
        return steps or [], is_complete and not pauses and not self._holds_too_much

    @property
    def _holds_too_much(self) -> bool:
        return len(self._rows) > _MOST_ROWS

    def _others(self, pauses: Sequence[Interval], horizon: float) -> list[Step]:
        table = self._settled(horizon)
        spans = [span for span in self._spans if span.end <= horizon] + table.spans(self._sites)
        self._spans = [span for span in self._spans if span.end > horizon]
        # At the same end, a reduction of metrics may have been fed in an earlier read: it always comes first.
        spans.sort(key=lambda span: (span.end, not span.site.overlaps_updates))
        steps = self._assembler.feed(spans[:_BATCH], pauses)
        for first in range(_BATCH, len(spans), _BATCH):
            time.sleep(_BREAK_SECONDS)
            steps += self._assembler.feed(spans[first : first + _BATCH])
        return steps

    def _settled(self, horizon: float) -> SpanTable:
        """Take the spans of rows that are settled."""
        partly = self._kinds.table(self._rows[: self._partly_taken])
        fresh = self._kinds.table(self._rows[self._partly_taken :])
        table = joined_tables([partly.where(partly.end > self._until), fresh])
        self._until = self._end_of_settled(table, horizon)
        self._rows = self._rows[self._kinds.last_ends(self._rows) > self._until]
        self._partly_taken = len(self._rows)
        return table.where(table.end <= self._until)

    def _end_of_settled(self, table: SpanTable, horizon: float) -> float:
        """Return the end of the last run by `horizon` before which all spans are of usual steps."""
        numbers = numbers_in(table.site)
        if self._spans or not are_usual([self._sites[number] for number in numbers]):
            return horizon
        is_run = np.zeros(len(self._sites), bool)
        is_run[[number for number in numbers if self._sites[number].kind is Kind.RUN]] = True
        ends = table.end[is_run[table.site]]
        return max(ends[ends <= horizon].tolist(), default=horizon if self._holds_too_much else self._until)


def _on_new_clock(span: Span, by: float, now: float) -> Span:
    begin, end = on_new_clock(np.array([span.begin, span.end]), by, now).tolist()
    return span._replace(begin=begin, end=end)
