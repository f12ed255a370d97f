"""Kinds of rows, and the spans in them."""

from __future__ import annotations

import numpy as np
from loop_rows import Loop
from tfscale.trainer.probe.rows.row_kinds import Member, RowKinds
from tfscale.trainer.probe.rows.spans import Span


def test_a_row_has_its_spans_whatever_else_lies_between() -> None:
    loop, kinds = Loop(), RowKinds()
    step = kinds.new_kind([Member(loop.input, 3), Member(loop.gradients, 2), Member(loop.run, 1)])
    metric = kinds.new_kind([Member(loop.metric, 2)])
    rows = np.zeros((3, 12))
    rows[0, :7] = step, 1, 2, 32, 3, 4, 5
    rows[1, :3] = metric, 6, 7
    rows[2, :7] = step, 8, 9, 16, 10, 11, 12
    assert sorted(kinds.table(rows).spans(loop.sites.all), key=lambda span: span.end) == [
        Span(loop.input, 1, 2, 32),
        Span(loop.gradients, 3, 4),
        Span(loop.run, 5, 5),
        Span(loop.metric, 6, 7),
        Span(loop.input, 8, 9, 16),
        Span(loop.gradients, 10, 11),
        Span(loop.run, 12, 12),
    ]
    assert kinds.table(rows[:0]).spans(loop.sites.all) == []


def test_collectives_are_counted_by_their_rows() -> None:
    loop = Loop()
    loop.evaluation()
    for _ in range(3):
        loop.step((2, 3, 5, 20, 10), waits=[(0.1, 0.1)])
    loop.step((2, 3, 5, 20, 10), waits=[(0.1, 0.1), (0.2, 0.1)])
    rows = loop.read(0.0, np.inf)
    assert loop.kinds.collectives(rows) == 3 * 2 + 3
    assert loop.kinds.collectives(rows[:0]) == 0
