"""The end of the sentence: the cause of one straggler, or of several."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tfscale.console.analysis.causes.cause_rules import UNKNOWN, Cause
from tfscale.console.analysis.causes.cause_words import with_causes
from tfscale.console.analysis.stragglers.straggler_words import TWO_KINDS
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock

HOT, LATE = (
    Cause("thermal", "its GPU is throttled by heat (91 °C)", {"heat": 0.9}),
    Cause("input", "its data come late"),
)
NONE, SLOW = Cause(UNKNOWN), Cause("device", "its GPU is slow, though nothing throttles it")
BOTH = f"2 of 4 workers (worker:0 and 2) have been slow since {clock(60.0)}: much. The cluster loses 21%."


def told(*causes: Cause, **evidence: str) -> list[Diagnosis]:
    newest = Diagnosis("straggler", "worker:2", 60.0, None, "serious", BOTH, {**evidence})
    stragglers = [newest, replace(newest, subject="worker:0", begin=10.0)]
    return with_causes(stragglers, causes, 100.0)


@pytest.mark.parametrize(
    ("causes", "end"),
    [
        ((NONE, NONE), "The cluster loses 21%."),
        ((LATE, LATE), "21%. Likely cause of each: its data come late."),
        ((NONE, LATE), "21%. Likely causes: its data come late (worker:0)."),
        ((HOT, LATE), "Likely causes: its data come late (worker:0); its GPU is throttled by heat (91 °C) (worker:2)."),
    ],
)
def test_each_cause_is_told_with_those_that_have_it(causes: tuple[Cause, ...], end: str) -> None:
    found = told(*causes)
    assert {each.sentence for each in found} == {found[0].sentence} and found[0].sentence.endswith(end)
    assert f"have been slow for 40 s (since {clock(60.0)}): " in found[0].sentence
    assert [each.evidence["cause"] for each in found] == [cause.kind for cause in causes]


def test_two_kinds_of_hardware_are_asked_for_where_nothing_else_is_found() -> None:
    assert told(SLOW, NONE, suspected=TWO_KINDS)[0].sentence.endswith("loses 21%. Two kinds of hardware?")
    assert told(HOT, NONE, suspected=TWO_KINDS)[0].sentence.endswith("(91 °C) (worker:2).")
