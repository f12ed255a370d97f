"""Costs of findings of simulated runs, and when they were highest."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.report.finding_ledger import FindingLedger, ReportedFinding
from tfscale.core.records.diagnosis import Diagnosis


def ledger(seconds: list[tuple[float, Findings]]) -> list[ReportedFinding]:
    made = FindingLedger()
    for at, findings in seconds:
        made.add(at, findings)
    return [found for found in made.findings if found.diagnosis.kind != "saturation"]


def watched(seconds: int, workers: int, *faults: str) -> list[ReportedFinding]:
    return ledger(findings_by_second(simulated(seconds, workers, *faults), workers))


def test_a_straggler_costs_its_share_from_its_begin_to_its_end() -> None:
    seconds = findings_by_second(simulated(90, 3, "worker:1=1.6x@20s-60s"), 3)
    share = max(1 - 1 / (findings.slowdown or 1.0) for _, findings in seconds)
    (found,) = ledger(seconds)
    assert found.lost == pytest.approx(40 * share, rel=0.15)
    assert found.worst_share == pytest.approx(40 / 60 * share, rel=0.15)
    assert found.worst_at == pytest.approx(fakes.NOW + 30, abs=30)
    assert found.diagnosis.end == pytest.approx(fakes.NOW + 60, abs=3)
    assert found.diagnosis.sentence.startswith("worker:1 was "), "its end is told in the past tense"
    assert found.remedy is not None


def test_several_with_one_sentence_are_one_finding_with_what_they_cost_together() -> None:
    seconds = findings_by_second(simulated(70, 4, "worker:1=1.6x@20s", "worker:3=1.6x@20s"), 4)
    (found,) = [each for each in ledger(seconds) if each.diagnosis.kind == "straggler"]
    assert found.subjects == ("worker:1", "worker:3")
    share = 1 - 1 / (seconds[-1][1].slowdown or 1.0)
    assert found.lost == pytest.approx(50 * share, rel=0.15)
    assert found.worst_share <= share


def test_three_causes_at_once_are_all_told_with_what_to_do_about_each() -> None:
    (found,) = watched(40, 8, "worker:1=cpu", "worker:3=thermal", "worker:5=40ms,input")
    assert all(f"({name})" in found.diagnosis.sentence for name in found.subjects), found.diagnosis.sentence
    said = (found.remedy or "").split("; ")
    assert [step.partition(": ")[0] for step in said] == ["worker:1", "worker:3", "worker:5"], found.remedy
    assert "cores" in said[0] and "cooling" in said[1] and "prefetch" in said[2]


def test_time_that_a_straggler_explains_is_no_longer_charged_to_uneven_work() -> None:
    moves = [f"worker:{1 + second % 3}=1.6x@{second}s-{second + 1}s" for second in range(6, 50)]
    found = {each.diagnosis.kind: each for each in watched(90, 4, *moves, "worker:1=1.6x@50s")}
    imbalance, straggler = found["imbalance"], found["straggler"]
    alone = straggler.diagnosis.begin - imbalance.diagnosis.begin
    assert 20 < alone < 50, "the straggler is noticed only some time after its begin"
    assert 0.2 * alone < imbalance.lost < 0.32 * alone


def test_a_second_of_a_straggler_is_not_charged_to_uneven_work_as_well() -> None:
    slow = Diagnosis("straggler", "worker:1", fakes.NOW, None, "serious", "slow", {"slowdown": 1.5})
    uneven = Diagnosis("imbalance", "cluster", fakes.NOW + 10, None, "warning", "uneven", {"cost": 0.2})
    both = Findings((slow, uneven), slowdown=1.5)
    told = [Findings((slow,), slowdown=1.5)] * 20 + [Findings((uneven,))] * 10 + [both] * 10
    seconds = [(fakes.NOW + 1 + second, findings) for second, findings in enumerate(told)]
    found = {each.diagnosis.kind: each.lost for each in ledger(seconds)}
    assert found == {"straggler": pytest.approx(30 / 3), "imbalance": pytest.approx(0.2 * 10)}


def test_a_finding_is_reported_as_severe_as_it_was_at_its_worst() -> None:
    (found,) = watched(120, 3, "worker:1=3x@20s-50s", "worker:1=1.5x@50s")
    assert found.diagnosis.severity == "critical"
    assert found.diagnosis.evidence["slowdown"] > 1.5  # type: ignore[operator]


@pytest.mark.parametrize(
    ("fault", "kind"), [("hang", "hang"), ("stop", "hang"), ("gone", "cut_off"), ("kill", "crash"), ("cut", None)]
)
def test_a_standstill_costs_all_the_time_from_its_first_second_on(fault: str, kind: str | None) -> None:
    found = {each.diagnosis.kind: each for each in watched(130, 3, f"worker:1={fault}@20s") if each.lost}
    if kind is None:
        assert not found, "an agent that is out of reach stops nobody"
        return
    assert found.keys() == {kind}
    assert found[kind].lost == pytest.approx(109.5, abs=3)
    assert found[kind].worst_share == pytest.approx(1.0)


def test_a_hang_that_opens_again_costs_all_its_time_and_has_not_ended() -> None:
    """A stopped process makes a stillness a hang at once; once the process goes on, it is a stillness again."""
    (hang,) = watched(100, 3, "worker:1=hang@20s", "worker:1=stop@30s-40s")
    assert (hang.diagnosis.kind, hang.diagnosis.end) == ("hang", None)
    assert hang.lost == pytest.approx(79.5, abs=3)


def test_steps_with_a_loss_that_is_no_number_cost_all_their_time() -> None:
    (lost,) = watched(60, 2, "worker:1=nan@30s")
    assert (lost.diagnosis.kind, lost.lost) == ("not_finite", pytest.approx(30, abs=2))


def blocked(event: Event, since: float) -> Event:
    """Return the event; a frame of worker:1 after `since` with a thread that waits in the kernel from then on."""
    if not isinstance(event, FrameArrived) or str(event.task) != "worker:1" or event.frame.at < since + 1:
        return event
    host = event.frame.host
    assert host is not None and host.task is not None
    usage = replace(host.task, blocked=1, blocked_for=event.frame.at - since, blocked_in="nfs_wait")
    held = replace(host, task=usage)
    return replace(event, frame=replace(event.frame, host=held))


def test_a_thread_that_the_kernel_blocks_costs_the_time_in_which_nobody_makes_a_step() -> None:
    events = [blocked(event, fakes.NOW + 20) for event in simulated(80, 3, "worker:1=hang@20s")]
    found = ledger(findings_by_second(events, 3))
    assert "blocked" in {each.diagnosis.kind for each in found}
    assert sum(each.lost for each in found) == pytest.approx(60, abs=3), "no second is charged twice"


def test_what_nobody_watched_is_not_counted() -> None:
    seconds = findings_by_second(simulated(60, 3, "worker:1=1.6x@20s"), 3)
    at, findings = seconds[-1]
    before = ledger(seconds)[0].lost
    assert ledger([*seconds, (at + 3000.0, findings)])[0].lost == before


def test_a_worker_that_is_slow_again_after_a_restart_is_two_findings_with_a_time_and_a_cost_each() -> None:
    seconds = findings_by_second(simulated(60, 4, "worker:1=1.6x@3s", "worker:1=kill@30s-35s"), 4)
    stragglers = [each for each in ledger(seconds) if each.diagnosis.kind == "straggler"]
    assert [each.subjects for each in stragglers] == [("worker:1",), ("worker:1",)]
    first, second = (each.diagnosis for each in stragglers)
    assert first.end is not None and first.end <= fakes.NOW + 31 < second.begin and second.end is None
    share = 1 - 1 / (seconds[-1][1].slowdown or 1.0)
    for each, until in zip(stragglers, (first.end, seconds[-1][0]), strict=True):
        assert each.lost == pytest.approx(share * (until - each.diagnosis.begin), rel=0.15)
