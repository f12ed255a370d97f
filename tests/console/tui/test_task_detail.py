"""Lines of a task's page."""

from __future__ import annotations

import pytest
from tfscale.console.tui.widgets.panes.task_detail import stage_facts
from tfscale.core.analysis.findings import SubjectSummary


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (SubjectSummary(compute=0.08, input=0.02), "compute 80.0 ms   waits for a neighbour 20.0 ms   bubble 20%"),
        (SubjectSummary(compute=0.08, input=0.0), "compute 80.0 ms   waits for a neighbour 0 us   bubble 0%"),
        (SubjectSummary(), "compute –   waits for a neighbour –"),
    ],
)
def test_a_stage_tells_its_bubble(summary: SubjectSummary, said: str) -> None:
    assert stage_facts(summary) == said
