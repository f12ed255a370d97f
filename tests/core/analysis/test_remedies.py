"""The first step for each finding."""

from __future__ import annotations

import pytest
from tfscale.core.analysis.causes.cause_rules import CAUSE_RULES, UNKNOWN
from tfscale.core.analysis.remedies import first_step
from tfscale.core.records import LAG_PHASES, Diagnosis


def found(kind: str, subject: str = "worker:1", **evidence: float | str | None) -> Diagnosis:
    return Diagnosis(kind, subject, 0.0, None, "serious", "", evidence)


@pytest.mark.parametrize("cause", [*CAUSE_RULES, UNKNOWN])
@pytest.mark.parametrize("phase", LAG_PHASES)
def test_every_straggler_has_something_to_do(cause: str, phase: str) -> None:
    assert first_step(found("straggler", cause=cause, phase=phase))


@pytest.mark.parametrize("kind", ["crash", "hang", "not_started", "not_finite"])
def test_every_failure_has_something_to_do(kind: str) -> None:
    assert first_step(found(kind))


def test_a_cause_goes_before_the_phase_that_it_shows_in() -> None:
    assert first_step(found("straggler", cause="thermal", phase="compute")) == (
        "mend the cooling of its host, or restart it on another one"
    )


def test_the_reason_of_a_crash_says_what_to_change_before_it_is_restarted() -> None:
    assert (
        first_step(found("crash", reason="out_of_memory")) == "take a smaller batch, or mixed precision; then restart"
    )
    assert "dmesg" in (first_step(found("crash", signal="SIGKILL", reason=None)) or "")
    assert first_step(found("crash", code=1.0, reason="exception")) == "read the end of its log; then restart"


def test_of_saturation_the_remedies_that_the_sentence_has_no_room_for() -> None:
    assert first_step(found("saturation", "cluster", remedies="a (+10% throughput); b; c")) == "or b; c"
    assert first_step(found("saturation", "cluster", remedies="a")) is None


def test_nothing_is_advised_where_the_sentence_says_it() -> None:
    assert first_step(found("hang", "cluster")) is None
    assert first_step(found("imbalance", "cluster", phase=None)) is None
