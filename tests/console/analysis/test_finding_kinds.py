"""The table of kinds, and a diagnosis whose kind has no row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis import finding_kinds
from tfscale.console.analysis.finding_kinds import KINDS, Charge, FindingKind, first_step, kind_of, rank_of
from tfscale.console.analysis.run.goodput import BUCKETS
from tfscale.console.report.finding_ledger import FindingLedger
from tfscale.core.records.diagnosis import Diagnosis

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "diagnoses.md"
ROWS = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def diagnosis(name: str) -> Diagnosis:
    return Diagnosis(name, "worker:1", 100.0, None, "warning", "told")


@ROWS
def test_a_gap_has_its_reason_and_only_a_gap_has_one(kind: FindingKind) -> None:
    gaps = {name for name in ("charges", "is_over", "first_step") if getattr(kind, name) is None}
    assert kind.gaps.keys() == gaps
    assert all(kind.gaps.values())


@ROWS
def test_what_costs_time_has_a_noun_for_the_report(kind: FindingKind) -> None:
    assert (kind.nouns is None) == (kind.charges is None)


@ROWS
def test_what_stops_the_training_is_charged_to_a_bucket_of_goodput_and_forbids_a_restart(kind: FindingKind) -> None:
    assert kind.stops_training == (kind.charges in BUCKETS)
    assert kind.forbids_restart or not kind.stops_training


@ROWS
def test_the_reference_explains_it(kind: FindingKind) -> None:
    assert f"\n| `{kind.name}` | " in REFERENCE.read_text()


def test_the_reference_has_no_kind_without_a_row() -> None:
    table = REFERENCE.read_text().split("\n\n")[2]
    assert set(re.findall(r"^\| `(\w+)` ", table, re.MULTILINE)) == {kind.name for kind in KINDS}


def test_each_kind_has_one_row() -> None:
    assert [rank_of(diagnosis(kind.name)) for kind in KINDS] == [*range(len(KINDS))]
    assert all(kind_of(diagnosis(kind.name)) is kind for kind in KINDS)


def test_a_kind_without_a_row_comes_last_and_is_charged_with_nothing() -> None:
    unknown = diagnosis("of_a_later_version")
    assert (kind_of(unknown).charges, first_step(unknown), rank_of(unknown)) == (None, None, len(KINDS))


def test_the_diagnosis_goes_on_where_a_rule_finds_a_kind_without_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(finding_kinds._BY_NAME, "hang")
    monkeypatch.delitem(finding_kinds._RANKS, "hang")
    ledger = FindingLedger()
    for at, findings in findings_by_second(simulated(100, 3, "worker:1=hang@20s"), 3):
        ledger.add(at, findings)
    assert findings.headline.startswith("no step for"), "a neutral kind is no reason to stand still"
    (found,) = [each for each in ledger.findings if each.diagnosis.kind == "hang"]
    assert (found.lost, found.remedy, found.diagnosis.severity) == (0.0, None, "critical")


def test_every_charge_is_used() -> None:
    assert {kind.charges for kind in KINDS} == {*Charge, None}
