"""A restart whose cost and gain are measured: among the events, in the JSON lines and in the report."""

from __future__ import annotations

from pathlib import Path

import fakes
import pytest
from simulated_runs import record, simulated
from tfscale.console.engine.events import Event, SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.export import rows
from tfscale.console.report.report_builder import report_recorded
from tfscale.console.report.run_file import open_run
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.widgets.panes.headline_pane import open_diagnoses


@pytest.fixture(scope="module")
def run() -> list[Event]:
    """Return the events of two workers, of which one is slow until it is killed and both are restarted."""
    return simulated(170, 2, "worker:1=1.5x@0s-80s", "worker:1=kill@80s-87s")


def test_it_is_one_event_and_one_line_and_no_trouble(run: list[Event]) -> None:
    state, lines, last = states(simulated_spec(2))(), [], None
    for event in run:
        state.fold(event)
        if isinstance(event, SecondPassed):
            last = state.snapshot(event.at)
            told = [each for each in last.changes if each.kind == "restart"]
            lines += [rows.diagnosis_line(each, last.at) for each in told]
            assert not told or open_diagnoses(last) == []
    assert last is not None and last.findings.headline.startswith("healthy: ")
    (line,), (entry,) = lines, [each for each in last.timeline if each.kind == "restart"]
    assert line["sentence"] == entry.text and entry.text.startswith("restart of 2 workers gained ")
    assert (line["severity"], entry.severity, line["subject"]) == ("info", "info", "cluster")
    assert entry.at == line["time"] == pytest.approx(fakes.NOW + 149, abs=4), "a minute after its first step"
    assert line["end"] < line["time"]
    assert line["evidence"]["gained"] == pytest.approx(line["evidence"]["expected"], abs=0.06)


def test_it_is_in_the_report(run: list[Event], tmp_path: Path) -> None:
    path = record(tmp_path / "run.tfscale", run, simulated_spec(2))
    report = report_recorded(path, open_run(path))
    (found,) = [finding for _, finding in report.findings if finding.diagnosis.kind == "restart"]
    assert found.diagnosis.sentence.startswith("restart of 2 workers gained ") and found.lost == 0.0
