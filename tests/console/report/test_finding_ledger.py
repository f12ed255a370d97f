"""Costs of findings, and when they were highest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tfscale.console.analysis.findings import Findings
from tfscale.console.report.finding_ledger import FindingLedger
from tfscale.core.records.diagnosis import Diagnosis

SLOW = Diagnosis(
    "straggler", "worker:3", 30.0, None, "warning", "worker:3 is 1.3x slower", {"slowdown": 1.25, "cause": "thermal"}
)
OTHER = replace(SLOW, subject="worker:5", sentence="worker:5 is slower", evidence={"slowdown": 1.75, "cause": "input"})
STOP = Diagnosis("hang", "worker:1", 100.0, None, "critical", "worker:1 is stuck", {})


def moving(*diagnoses: Diagnosis, slowdown: float | None = None) -> Findings:
    return Findings(diagnoses, steps_per_second=5.0, slowdown=slowdown)


def ledger(*seconds: tuple[float, Findings]) -> FindingLedger:
    made = FindingLedger()
    for at, findings in seconds:
        made.add(at, findings)
    return made


def test_a_straggler_costs_its_share_from_its_begin_to_its_end() -> None:
    watched = [(float(at), moving(SLOW, slowdown=1.25)) for at in range(40, 91)]
    (found,) = ledger((39.0, moving()), *watched, (91.0, moving(replace(SLOW, end=91.0)))).findings
    assert found.lost == pytest.approx((90 - 30) * 0.2)
    assert (found.worst_at, found.worst_share) == (0.0, pytest.approx(0.1)) or found.worst_at == 60.0
    assert found.diagnosis.end == 91.0
    assert found.remedy == "mend the cooling of its host, or restart it on another one"


def test_two_at_once_share_what_they_cost_together() -> None:
    seconds = [(float(at), moving(SLOW, OTHER, slowdown=2.0)) for at in range(30, 131)]
    slow, other = ledger(*seconds).findings
    assert slow.lost + other.lost == pytest.approx(100 * 0.5)
    assert other.lost == pytest.approx(3 * slow.lost)


def test_several_with_one_sentence_are_one_finding_with_what_they_cost_together() -> None:
    figures: dict[str, float | str | None] = {"slowdown": 2.0}
    first = replace(SLOW, sentence="2 of 4 workers (worker:3 and 5)", evidence=figures)
    second = replace(first, subject="worker:5", begin=50.0, severity="serious")
    alone = replace(first, sentence="worker:3 alone")
    seconds = [(float(at), moving(alone, slowdown=1.25)) for at in range(30, 51)]
    seconds += [(float(at), moving(first, second, slowdown=2.0)) for at in range(51, 131)]
    (found,) = ledger(*seconds).findings
    assert found.subjects == ("worker:3", "worker:5")
    assert (found.diagnosis.sentence, found.diagnosis.severity) == (first.sentence, "serious")
    assert found.lost == pytest.approx(20 * 0.2 + 80 * 0.5, rel=0.02)
    assert (found.worst_at, found.worst_share) == (60.0, pytest.approx(0.5))


def test_it_keeps_what_it_was_at_its_worst() -> None:
    worse = replace(SLOW, severity="serious", sentence="worker:3 is 2x slower")
    better = replace(SLOW, sentence="worker:3 is 1.1x slower")
    seconds = [(31.0, moving(SLOW, slowdown=1.25)), (32.0, moving(worse, slowdown=2.0))]
    seconds += [(33.0, moving(better, slowdown=1.1)), (34.0, moving(replace(better, end=34.0)))]
    (found,) = ledger(*seconds).findings
    assert (found.diagnosis.severity, found.diagnosis.sentence) == ("serious", "worker:3 is 2x slower")
    told = replace(better, end=35.0, sentence="worker:3 was 1.5x slower for 4 s")
    (found,) = ledger(*seconds[:3], (35.0, moving(told))).findings
    assert found.diagnosis.sentence == told.sentence, "a rule that tells at its end what it was is quoted"


def test_while_nothing_moves_the_gravest_standstill_costs_all_of_it() -> None:
    seconds = [(float(at), Findings((STOP, SLOW), slowdown=1.5)) for at in range(120, 181)]
    slow, stop = ledger(*seconds).findings
    assert (stop.lost, slow.lost) == (pytest.approx(80.0), 0.0)
    assert (stop.worst_at, stop.worst_share) == (120.0, pytest.approx(1.0))


def test_what_nobody_watched_is_not_counted() -> None:
    seconds = [(31.0, moving(SLOW, slowdown=2.0)), (3000.0, moving(SLOW, slowdown=2.0))]
    (found,) = ledger(*seconds).findings
    assert found.lost == pytest.approx(0.5)
