"""The first sentence of a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from simulated_runs import simulated
from tfscale.console.analysis.run.goodput import BUCKETS
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.console.report.report_builder import report_recorded
from tfscale.console.report.run_report import RunGroup
from tfscale.console.report.timelines import PhaseTimeline
from tfscale.console.report.verdict import length, verdict
from tfscale.console.sources.recorded import RecordedSource
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.cluster.gpu_price import GpuPrice
from tfscale.core.records.diagnosis import Diagnosis

DAY = 86400.0


def finding(kind: str, subject: str, lost: float, cause: str = "") -> ReportedFinding:
    return ReportedFinding(Diagnosis(kind, subject, 0.0, None, "serious", "", {"cause": cause}), (subject,), lost)


def day(*findings: ReportedFinding, **spent: float) -> RunGroup:
    buckets = {**dict.fromkeys(BUCKETS, 0.0), "productive": DAY - sum(spent.values()), **spent}
    return RunGroup("", PhaseTimeline(), {}, 10, 0.0, DAY, spent=buckets, findings=findings)


def test_it_names_what_cost_most_and_whom() -> None:
    stragglers = [finding("straggler", f"worker:{index}", 340.0, "input") for index in range(3)]
    worst = finding("straggler", "worker:3", 2520.0, "thermal")
    run = day(*stragglers, worst, finding("hang", "worker:1", 120.0), stragglers=0.39 * DAY)
    assert verdict(run) == (
        "24 h, 61% productive; 4 stragglers cost 59 min, the worst worker:3, overheated, 42 min; "
        "1 hang, worker:1, cost 120 s"
    )


def test_several_stragglers_of_one_finding_are_counted_and_named() -> None:
    both = replace(finding("straggler", "worker:1", 600.0, "input"), subjects=("worker:1", "worker:3"))
    assert "; 2 stragglers, worker:1 and 3, cost 10 min" in verdict(day(both))
    third = finding("straggler", "worker:5", 60.0)
    assert "; 3 stragglers cost 11 min, the worst worker:1 and 3, 10 min" in verdict(day(both, third))


def test_several_findings_of_one_task_name_it_once() -> None:
    source = RecordedSource(simulated_spec(2), simulated(70, 2, "worker:1=kill@20s-25s", "worker:1=kill@45s-50s"))
    (group,) = report_recorded(Path("run"), source).groups
    assert "; 2 crashes, worker:1, cost 10 s" in verdict(group)


def test_it_names_what_else_took_much_of_the_time() -> None:
    run = day(checkpoint=0.2 * DAY, start=0.01 * DAY, lost_progress=0.1 * DAY)
    took = "writing checkpoints took 4 h 48 m; steps made again after a restart took 2 h 24 m"
    assert verdict(run) == f"24 h, 69% productive; {took}"
    assert verdict(day()) == "24 h, 100% productive; nothing else cost it time worth a word"


def test_lost_time_is_gpu_hours_and_money_where_these_are_known() -> None:
    run = RunGroup("", PhaseTimeline(), {}, 10, 0.0, 7200.0, findings=(finding("crash", "worker:1", 360.0),), gpus=8)
    assert "1 crash, worker:1, cost 360 s (0.8 GPU-h)" in verdict(run)
    priced = RunGroup("", PhaseTimeline(), {}, 10, 0.0, 7200.0, gpus=8, gpu_price=GpuPrice(2.5, "EUR"))
    assert (priced.price_of(360.0), priced.price_of(7200.0)) == ("0.8 GPU-h, 2.00 EUR", "16 GPU-h, 40 EUR")


@pytest.mark.parametrize(
    ("seconds", "says"), [(95.0, "95 s"), (2520.0, "42 min"), (3600.0, "1 h"), (18120.0, "5 h 02 m")]
)
def test_a_length_is_told_in_its_two_largest_units(seconds: float, says: str) -> None:
    assert length(seconds) == says


@pytest.mark.parametrize(
    "faults", [("worker:1=cpu", "worker:3=thermal", "worker:5=40ms,input"), ("worker:5=60ms,input@10s",)]
)
def test_a_second_that_waits_for_a_stragglers_data_is_told_once(faults: Sequence[str]) -> None:
    source = RecordedSource(simulated_spec(8), simulated(60, 8, *faults))
    (group,) = report_recorded(Path("run"), source).groups
    said = verdict(group)
    lost = sum(int(seconds) for seconds in re.findall(r"(?:cost|took) (\d+) s", said))
    assert re.search("straggler", said) and lost <= 60 - group.spent["productive"] + 2, said


@pytest.mark.parametrize(
    ("faults", "noun"),
    [
        (("worker:1=kill@20s",), "crash"),
        (("worker:1=nan@20s",), "loss that is no number"),
        (("worker:1=nan@20s", "worker:0=2x@30s"), "loss that is no number"),
    ],
)
def test_no_finding_costs_more_than_the_run_that_was_recorded_had(faults: Sequence[str], noun: str) -> None:
    source = RecordedSource(simulated_spec(2), simulated(60, 2, *faults))
    (group,) = report_recorded(Path("run"), source).groups
    told = re.fullmatch(rf"60 s, (\d+)% productive; 1 {noun}, worker:1, cost (\d+) s.*", verdict(group))
    assert told is not None, verdict(group)
    assert float(told[2]) == pytest.approx(40, abs=2)
    assert 25 <= float(told[1]) <= 100 * 20 / 60
