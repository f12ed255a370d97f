"""Advice page: remedies, and never a gain without a model."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pages
import pytest
from tfscale.console.advice.present_load import load_of_snapshot
from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.run.recommendations import Recommendations, recommend
from tfscale.console.engine.model import Snapshot


def snapshot_of(case: str) -> Snapshot:
    return pages.state_of(case).picture(fakes.NOW + pages.FAULTS[case][0])


def recommended(snapshot: Snapshot) -> Recommendations:
    return recommend(snapshot.findings, load_of_snapshot(snapshot))


def test_the_present_is_in_medians_of_workers() -> None:
    present = load_of_snapshot(snapshot_of("healthy"))
    assert present is not None and present.ranks == 4
    assert present.step == pytest.approx(0.1, rel=0.1)
    assert 0 < present.transfer < present.step and present.compute > present.input > 0


def test_a_straggler_repaired_gains_what_it_costs() -> None:
    snapshot = snapshot_of("slow")
    found = recommended(snapshot)
    gains = {remedy.what: remedy.gain for remedy in found.remedies}
    assert gains["worker:1 as fast as the others"] == snapshot.findings.slowdown
    assert [diagnosis.kind for diagnosis in found.culprits] == ["straggler"]
    ordered = [remedy.gain or 0.0 for remedy in found.remedies]
    assert ordered == sorted(ordered, reverse=True)


def test_every_gain_has_its_model() -> None:
    for case in pages.FAULTS:
        for remedy in recommended(snapshot_of(case)).remedies:
            assert remedy.gain and remedy.model, remedy


def test_without_measured_steps_there_is_no_gain() -> None:
    snapshot = replace(snapshot_of("healthy"), findings=Findings())
    found = recommended(snapshot)
    assert load_of_snapshot(snapshot) is None and found.remedies == ()
