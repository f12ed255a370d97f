"""Failures of the diagnosis: each is reported, and everything else goes on."""

from __future__ import annotations

import fakes
import pytest
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.resilient_analysis import ResilientAnalysis
from tfscale.console.engine.state import ClusterState
from tfscale.core.records.frame import Frame

SPEC = fakes.spec(2)


class Failing(fakes.FakeAnalysis):
    """Analysis that fails where it is told to."""

    is_broken = False

    def observe(self, task: str, frame: Frame) -> None:
        if self.is_broken:
            raise KeyError(task)
        super().observe(task, frame)

    def diagnose(self, now: float) -> Findings:
        if self.is_broken:
            raise ValueError("min() of nothing")
        return super().diagnose(now)


def test_each_failure_is_told_once_and_the_picture_goes_on_without_what_was_found() -> None:
    told: list[str] = []
    analysis = Failing(fakes.straggler_findings(SPEC))
    state = ClusterState(SPEC, ResilientAnalysis(analysis, told.append))
    for event in fakes.healthy_events(SPEC):
        state.fold(event)
    assert state.snapshot(fakes.NOW).findings.diagnoses
    analysis.is_broken = True
    for _ in range(3):
        for event in fakes.healthy_events(SPEC):
            state.fold(event)
        snapshot = state.snapshot(fakes.NOW)
    assert snapshot.up == 2 and snapshot.findings.diagnoses == () and snapshot.findings.subjects == {}
    assert "nothing is diagnosed" in snapshot.findings.headline and "min() of nothing" in snapshot.findings.headline
    assert len(told) == 3 and "test_resilient_analysis.py:" in told[0] and "KeyError" in told[0]
    analysis.is_broken = False
    assert state.snapshot(fakes.NOW).findings == fakes.straggler_findings(SPEC)


async def test_where_nobody_guards_it_the_failure_comes_through() -> None:
    analysis = Failing()
    analysis.is_broken = True
    source = fakes.ScriptedSource(SPEC)
    with pytest.raises(ValueError, match="min"):
        await Engine(source, lambda: ClusterState(SPEC, analysis)).run(fakes.Told())
