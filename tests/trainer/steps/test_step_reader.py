"""Rows and spans that wait until they are settled."""

from __future__ import annotations

import numpy as np
import pytest
from loop_rows import MS, usual
from tfscale.trainer.probe.rows.spans import Kind, Sites, Span
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.step_reader import StepReader


def test_reductions_without_a_run_do_not_wait_for_one_for_ever() -> None:
    loop = usual(30)
    assembler = StepAssembler()
    reader = StepReader(loop.sites.all, loop.kinds, assembler)
    reader.read(loop.read(0.0, np.inf), [], [], np.inf)
    assert assembler.sequence == 30
    metric = [
        [loop.row_of_metric, loop.at + MS * each, loop.at + MS * (each + 1), 0, 0, 0, 0, 0] for each in range(3000)
    ]
    for _ in range(2):
        reader.read(np.array(metric), [], [], np.inf)
    assert len(reader._rows) == 0


def test_a_span_that_may_have_one_before_it_waits_for_the_next_read() -> None:
    sites = Sites()
    assembler = StepAssembler()
    reader = StepReader(sites.all, usual(0).kinds, assembler)
    batch = sites.eager(Kind.INPUT)
    run = sites.eager(Kind.RUN, trains=True, unsplit=True)
    spans = [Span(batch, 100.0, 100.01), Span(run, 100.01, 100.05)]
    nothing = np.empty((0, 8))
    assert list(reader.read(nothing, spans, [], 100.02)) == []
    (step,) = reader.read(nothing, [], [], 100.1)
    assert step.end == 100.05 and step.input == 100.01 - 100.0


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_no_step_is_lost_or_waits_when_the_clock_is_set(by: float) -> None:
    """The rows of 0.2 s are read after it; the last of them are not settled, and some are of the clock before."""
    loop = usual(60)
    assembler = StepAssembler()
    reader = StepReader(loop.sites.all, loop.kinds, assembler)
    set_at, read_at = loop.at - 1.0, loop.at - 0.9
    steps = list(reader.read(loop.read(0.0, set_at - 0.1), [], [], set_at - 0.12))
    rows = loop.read(set_at - 0.1, read_at)
    rows[:, 1:] += np.where((rows[:, 1:] > 500) & (rows[:, 1:] > set_at), by, 0.0)
    rows, _ = reader.set_clock(rows, [], by, read_at + by)
    steps += reader.read(rows, [], [], read_at - 0.02 + by)
    after = loop.read(read_at, np.inf)
    after[:, 1:] += np.where(after[:, 1:] > 500, by, 0.0)
    newest = list(reader.read(after, [], [], np.inf))
    sequences = [step.sequence for step in [*steps, *newest]]
    assert sequences == list(range(60))
    ends = np.diff([step.end for step in newest])
    assert ends == pytest.approx(np.full(len(ends), 0.041), abs=0.003)
    assert min(step.reduce for step in newest[2:]) > 0.018, "it takes 20 ms, less what reductions of metrics take"
