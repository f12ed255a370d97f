"""Reports as messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tfscale.core.records.probe_status import Collective
from tfscale.core.records.training import Training
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report import wire
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.rows.spans import Distribution
from tfscale.trainer.probe.steps.usual_steps import UsualSteps
from tfscale.v1 import report_pb2

IDENTITY = Identity("/run/report.sock", "worker:1", generation=3, attempt=2, part=77)
STEPS = UsualSteps(
    first=300,
    end=1000.0 + 0.125 * np.arange(5),
    phases=np.arange(25.0).reshape(5, 5) / 64,
    bytes=np.full(5, 8.0),
    examples=np.full(5, 32.0),
    global_step=range(400, 405),
    distribution=Distribution(),
)


@pytest.mark.parametrize("more", [{}, {"global_step": None}, {"phases": np.full((5, 5), np.nan)}], ids=str)
def test_usual_steps_are_the_same_message_as_any_others(more: dict[str, Any]) -> None:
    steps = replace(STEPS, **more)
    report = ProbeReport(Collective(7, 6, 1000.5), training=Training(loss=0.5), steps=steps, lost=3)
    message = report_pb2.TaskReport.FromString(wire.serialised(IDENTITY, report))
    assert wire.serialised(IDENTITY, report) == wire.serialised(IDENTITY, report._replace(steps=list(steps)))
    assert message.steps[0].lost == 3 and message.steps[0].part == 77 and message.training.loss == 0.5
