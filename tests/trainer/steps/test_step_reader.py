"""Rows and spans that wait until they are settled."""

from __future__ import annotations

import numpy as np
from loop_rows import MS, usual
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.spans import Kind, Sites, Span
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
