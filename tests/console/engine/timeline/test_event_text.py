"""Lines of the event pane."""

from __future__ import annotations

import fakes
import pytest
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis.finding_kinds import KINDS
from tfscale.console.engine.events import CommandProgressed
from tfscale.console.engine.timeline.event_text import end_text, progress_text, status_text
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Exit, Stage, TaskState


def test_a_status_names_its_attempt_and_reason() -> None:
    assert status_text(fakes.status(TaskState.RUNNING, generation=2, attempt=3)) == "running, generation 2, attempt 3"
    assert status_text(fakes.status(TaskState.PENDING, reason="held")) == "pending (held)"
    ended = fakes.status(TaskState.EXITED, exit=Exit(None, 15, fakes.NOW, requested=True), reason="restart by request")
    assert status_text(ended) == "ended as asked, by SIGTERM (restart by request)"


@pytest.mark.parametrize(
    ("stage", "generation", "message", "text"),
    [
        (Stage.PLANNED, 2, "", "restart planned, generation 2"),
        (Stage.FAILED, 2, "refused", "restart failed: refused"),
        (Stage.DONE, 2, "", "restart done, generation 2"),
        (Stage.WORKING, 0, "2 of 3", "restart: 2 of 3"),
    ],
)
def test_progress_names_the_command(stage: Stage, generation: int, message: str, text: str) -> None:
    assert progress_text(CommandProgressed(fakes.NOW, "restart", stage, (), generation, message)) == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("slowdown", "steps are as fast as before again, or were started anew, after 1 m 35 s"),
        ("crash", "runs again, after 1 m 35 s"),
        ("still", "no longer still, after 1 m 35 s"),
    ],
)
def test_the_end_of_a_diagnosis_says_what_holds_again(kind: str, text: str) -> None:
    assert end_text(Diagnosis(kind, "worker:1", 100.0, 195.0, "serious", "")) == text


def test_the_end_of_a_straggler_is_its_sentence_in_the_past_tense() -> None:
    sentence = "worker:1 was 1.7x slower in compute for 25 s; normal since 08:00:31"
    assert end_text(Diagnosis("straggler", "worker:1", 100.0, 125.0, "serious", sentence)) == sentence


def test_a_restart_is_told_by_its_sentence() -> None:
    sentence = "restart of worker:1 cost 41 s; as fast as before"
    assert end_text(Diagnosis("restart", "worker:1", 100.0, 141.0, "info", sentence)) == sentence


def test_the_end_of_every_kind_has_words() -> None:
    ends = {kind.name: end_text(Diagnosis(kind.name, "worker:1", 100.0, 195.0, "serious", "told")) for kind in KINDS}
    assert not [kind for kind, text in ends.items() if text.startswith("is over")]


def test_a_limit_that_ends_because_no_step_is_made_is_not_said_to_be_over() -> None:
    events = simulated(45, 2, "worker:0=80ms,input", "worker:1=80ms,input", "worker:1=hang@28s")
    over = [each for _, found in findings_by_second(events, 2) for each in found.diagnoses if each.end is not None]
    assert [(each.kind, end_text(each).partition(";")[0]) for each in over] == [
        ("saturation", "not judged while no step is made")
    ]


def test_a_stillness_that_ends_because_a_task_fails_is_not_said_to_be_over() -> None:
    events = simulated(40, 2, "worker:1=hang@12s", "worker:0=kill@30s")
    over = [each for _, found in findings_by_second(events, 2) for each in found.diagnoses if each.end is not None]
    assert [(each.kind, end_text(each).partition(";")[0]) for each in over] == [("still", "a task has failed")]
