"""The first step for each finding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tfscale.console.analysis.causes.cause_rules import CAUSE_RULES, UNKNOWN
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.remedies import for_cluster, for_communication
from tfscale.core.records.diagnosis import Diagnosis, Remedy
from tfscale.core.records.step_batch import LAG_PHASES


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
    assert first_step(found("crash", code=1.0, reason="fatal")) == "read the end of its log; then restart"
    assert (first_step(found("crash", code=1.0, reason="exception")) or "").startswith("mend what it says")
    unheard = found("crash", code=None, signal=None, reason="peer_died")
    assert first_step(unheard) == "see whether the host of worker:1 answers (ping, ssh); then restart"


def test_of_saturation_the_remedies_that_the_sentence_has_no_room_for() -> None:
    limit = Diagnosis("saturation", "cluster", 0.0, None, "serious", "", remedies=(Remedy("a", 1.1), Remedy("b", 1.2)))
    assert first_step(limit) == "b (+20% throughput)"
    assert first_step(replace(limit, remedies=limit.remedies[:1])) is None


def test_of_a_stillness_what_the_process_does_says_what_to_do() -> None:
    assert "kill -CONT" in (first_step(found("hang", doing="stopped")) or "")
    assert first_step(found("still", doing="at_work")) == "b on the page of worker:1 shows where its Python is"
    assert first_step(found("hang", doing="idle")) == (
        "b on the page of worker:1 shows where its Python is; then restart it (r)"
    )
    assert first_step(found("hang", "cluster")) == "b on the page of a task shows where its Python is"
    assert first_step(found("still", doing="checkpoint")) is None


def test_of_a_few_bytes_no_fewer_are_advised() -> None:
    load = Load(step=0.01, transfer=0.005, input=0.0, compute=0.004, ranks=2, payload=5_000)
    told = " ".join(str(each) for each in (*for_communication(load), *for_cluster(load)))
    assert "bfloat16" not in told and "links" not in told and "a batch twice as large" in told
    assert "bfloat16" in str(for_communication(replace(load, payload=5_000_000))[0])


def test_nothing_is_advised_where_the_sentence_says_it() -> None:
    assert first_step(found("imbalance", "cluster", phase=None)) is None
