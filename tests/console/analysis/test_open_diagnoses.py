"""Open diagnoses: they keep their begin, and end once."""

import re
from dataclasses import replace

import fakes
import pytest
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis.open_diagnoses import OpenDiagnoses
from tfscale.core.records.diagnosis import Diagnosis

SLOW = Diagnosis("straggler", "worker:1", 10.0, None, "warning", "slow")


def slow(ratio: float, severity: str = "warning", **evidence: float | str | None) -> Diagnosis:
    """Return a straggler that costs a third of the throughput."""
    figures = {"ratio": ratio - 0.2, "phase_ratio": ratio, "slowdown": 1.5, "phase": "input", **evidence}
    return replace(SLOW, severity=severity, sentence=f"{ratio}x slower", evidence=figures)


def test_a_diagnosis_keeps_the_begin_that_it_was_opened_with_and_ends_once_at_its_worst() -> None:
    memory, limit = OpenDiagnoses(), Diagnosis("saturation", "cluster", 10.0, None, "warning", "near")
    assert memory.update([limit], 20.0) == (limit,)
    worst = replace(limit, begin=15.0, severity="serious", sentence="full")
    assert memory.update([worst], 21.0) == (replace(worst, begin=10.0),)
    memory.update([limit], 22.0)
    assert memory.update([], 23.0) == (replace(worst, begin=10.0, end=23.0),)
    assert memory.update([], 24.0) == ()


def test_the_moment_at_which_a_straggler_was_noticed_stays() -> None:
    memory = OpenDiagnoses()
    for at in (20.0, 21.0, 22.0):
        (told,) = memory.update([slow(1.6, noticed=at)], at)
        assert told.evidence["noticed"] == 20.0
    (ended,) = memory.update([], 70.0)
    assert ended.evidence["noticed"] == 20.0


def test_a_straggler_that_is_over_is_told_by_what_it_was_and_at_its_worst() -> None:
    memory = OpenDiagnoses()
    for ratio, severity, cause in (
        (1.6, "serious", "unknown"),
        (2.2, "critical", "input"),
        (1.6, "serious", "unknown"),
    ):
        memory.update([slow(ratio, severity, cause=cause)], 20.0)
    (ended,) = memory.update([], 70.0, recovered={"worker:1": 60.0})
    assert ended.sentence.startswith("worker:1 was 1.8x slower in input for 50 s; the cluster lost 33%; normal since ")
    assert (ended.severity, ended.end, ended.evidence["cause"]) == ("critical", 60.0, "input")
    assert ended.evidence["worst_phase_ratio"] == 2.2


def test_a_straggler_whose_task_ended_has_not_recovered_and_tells_the_worst_where_it_was_much_worse() -> None:
    memory = OpenDiagnoses()
    for ratio in (1.5, 1.5, 1.5, 3.5):
        memory.update([replace(slow(ratio), together=("worker:1", "worker:3"))], 20.0)
    (ended,) = memory.update([], 70.0)
    told = "worker:1 was 2.0x slower (at worst 3.5x) in input for 60 s; the cluster lost 33% to it and worker:3"
    assert (ended.sentence, ended.end) == (told, 70.0)


def test_stragglers_that_end_together_have_one_sentence_and_one_that_ends_before_has_its_own() -> None:
    memory = OpenDiagnoses()
    ratios, both = {"worker:1": 1.5, "worker:3": 1.9}, ("worker:1", "worker:3")
    for begin, subjects in ((20.0, ["worker:1"]), (30.0, ["worker:1", "worker:3"])):
        found = [replace(slow(ratios[name]), subject=name, begin=begin, together=both) for name in subjects]
        memory.update(found, begin + 5)
    ended = memory.update([], 90.0, recovered={"worker:1": 79.0, "worker:3": 80.0})
    (sentence,) = {each.sentence for each in ended}
    told = "worker:1 and 3 were 1.5x to 1.9x slower in input for 50 s; the cluster lost 33%; normal since "
    assert sentence.startswith(told)
    assert {each.subject: each.end for each in ended} == {"worker:1": 79.0, "worker:3": 80.0}


def test_a_task_can_crash_again() -> None:
    memory = OpenDiagnoses()
    first, second = (Diagnosis("crash", "worker:0", begin, None, "critical", "died") for begin in (1.0, 9.0))
    memory.update([first], 2.0)
    limit = Diagnosis("saturation", "cluster", 10.0, None, "warning", "full")
    assert memory.update([limit, second], 10.0) == (limit, second, replace(first, end=10.0))


def test_a_straggler_is_told_as_slow_in_compute_with_no_cause_that_is_of_another_phase() -> None:
    memory = OpenDiagnoses()
    for phase, cause in (("compute", "unknown"), ("host", "host"), ("compute", "unknown")):
        memory.update([slow(2.0, phase=phase, cause=cause)], 20.0)
    (ended,) = memory.update([], 70.0)
    assert ended.sentence.startswith("worker:1 was 2.0x slower in compute for 60 s; the cluster lost 33%")
    assert ended.evidence["cause"] == "unknown"


@pytest.mark.parametrize("factor", [1.6, 8.0])
def test_a_straggler_ends_with_the_factor_that_was_told_while_it_lasted(factor: float) -> None:
    seconds = findings_by_second(simulated(70, 4, f"worker:1={factor}x@20s-50s"), 4)
    stragglers = [each for _, found in seconds for each in found.diagnoses if each.kind == "straggler"]
    (ended,) = (each for each in stragglers if each.end is not None)
    told = [float(each.sentence.partition("x)")[0].rpartition("(")[2]) for each in stragglers if each.end is None]
    said = float(ended.sentence.removeprefix("worker:1 was ").partition("x slower in compute for ")[0])
    assert said == pytest.approx(factor, rel=0.05) and said == pytest.approx(sum(told) / len(told), abs=0.06)


def test_a_straggler_is_told_anew_after_a_standstill_which_is_no_slowness() -> None:
    seconds = findings_by_second(simulated(60, 3, "worker:1=1.6x@5s", "worker:1=stop@30s-45s"), 3)
    told = {
        each.begin - fakes.NOW: each.sentence
        for _, found in seconds
        for each in found.diagnoses
        if each.kind == "straggler" and each.end is None
    }
    before, after = told
    assert before == pytest.approx(5, abs=2) and after == pytest.approx(45, abs=1)
    assert re.match(r"worker:1 has been slow for 1[0-5](\.\d)? s ", told[after])
