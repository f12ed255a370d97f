"""Recommendations: never a gain without a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.recommendations import recommend, speedup
from tfscale.core.records.diagnosis import Diagnosis, Remedy

LOAD = Load(step=0.1, transfer=0.02, input=0.01, compute=0.06, ranks=4)


def test_remedies_without_a_model_are_told_as_such() -> None:
    remedies = (Remedy("links twice as fast", 1.12, at_most=True), Remedy("fewer, stronger GPUs"))
    limit = Diagnosis("saturation", "cluster", 0.0, None, "warning", "communication-bound", remedies=remedies)
    found = recommend(Findings(diagnoses=(limit,)), LOAD)
    assert found.limits == (limit,) and found.unproven == ("fewer, stronger GPUs",)


def test_the_forecast_begins_with_one_worker_and_has_a_band() -> None:
    curve = speedup(LOAD)
    assert curve is not None
    assert curve(1).throughput == pytest.approx(1.0)
    now, more = curve(4), curve(8)
    assert now.low == pytest.approx(now.high) and more.low < more.high < 8
    assert speedup(replace(LOAD, ranks=1)) is None


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("worker:1=1.6x@5s", "not judged beside a straggler"),
        ("worker:1=hang@20s", "not judged while no step is made"),
        ("worker:1=kill@20s", "the training has ended"),
        ("worker:1=cpu@90s", None),
    ],
)
def test_where_no_limit_is_judged_the_reason_is_told(fault: str, why: str | None) -> None:
    _, findings = findings_by_second(simulated(30, 2, fault), 2)[-1]
    assert recommend(findings, None).not_judged == why
