"""What would help: never a gain without a model."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pages
import pytest
from tfscale.console.advice import advice, present_of, scaling
from tfscale.console.engine.model import Snapshot
from tfscale.core.analysis.diagnose import Findings
from tfscale.core.records import Diagnosis


def snapshot_of(case: str) -> Snapshot:
    return pages.state_of(case).picture(fakes.NOW + pages.FAULTS[case][0])


def test_the_present_is_in_medians_of_workers() -> None:
    present = present_of(snapshot_of("healthy"))
    assert present is not None and present.workers == 4
    assert present.step == pytest.approx(0.1, rel=0.1)
    assert 0 < present.transfer < present.step and present.compute > present.input > 0


def test_a_straggler_repaired_gains_what_it_costs() -> None:
    snapshot = snapshot_of("slow")
    found = advice(snapshot)
    gains = {remedy.what: remedy.gain for remedy in found.remedies}
    assert gains["worker:1 as fast as the others"] == snapshot.findings.slowdown
    assert [each.kind for each in found.culprits] == ["straggler"]
    ordered = [remedy.gain or 0.0 for remedy in found.remedies]
    assert ordered == sorted(ordered, reverse=True)


def test_every_gain_has_its_model() -> None:
    for case in pages.FAULTS:
        for remedy in advice(snapshot_of(case)).remedies:
            assert remedy.gain and remedy.model, remedy


def test_without_measured_steps_there_is_no_gain() -> None:
    snapshot = replace(snapshot_of("healthy"), findings=Findings())
    found = advice(snapshot)
    assert found.present is None and found.remedies == ()


def test_remedies_without_a_model_are_told_as_such() -> None:
    evidence: dict[str, float | str | None] = {
        "remedies": "links twice as fast (at most +12% throughput); fewer, stronger GPUs"
    }
    limit = Diagnosis("saturation", "cluster", fakes.NOW, None, "warning", "communication-bound", evidence)
    snapshot = snapshot_of("healthy")
    found = advice(replace(snapshot, findings=replace(snapshot.findings, diagnoses=(limit,))))
    assert found.limits == (limit,) and found.unproven == ("fewer, stronger GPUs",)


def test_the_forecast_begins_with_one_worker_and_has_a_band() -> None:
    present = present_of(snapshot_of("healthy"))
    assert present is not None
    curve = scaling(present)
    assert curve is not None
    assert curve(1).throughput == pytest.approx(1.0)
    now, more = curve(4), curve(8)
    assert now.low == pytest.approx(now.high) and more.low < more.high < 8
    assert scaling(replace(present, workers=1)) is None
