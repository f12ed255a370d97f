"""Gradients that are not finite before the all-reduce: whose they were first, and when that is a fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.learning.lost_gradients import MOST_SKIPPED, Whose, lost_gradients
from tfscale.console.analysis.learning.non_finite import not_finite
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.records.training import Gradients, Training

View = Callable[..., ObservedTask]
MakeFrame = Callable[..., Frame]
FINITE = Gradients()
LOST = Gradients(3, 1000.0, 88, 89, (0,), 2, 8, "dense/kernel")
LATER = replace(LOST, steps=2, since=1000.1, sequence=89, global_step=90)


def workers(view: View, *gradients: Gradients | None, **changes: object) -> list[ObservedTask]:
    """Return tasks that have told this of their gradients, 91 steps, and that their loss is lost."""
    known = {"at": 1010.0, "not_finite_since": 1001.0, "not_finite_step": 90, "steps": 91, **changes}
    return [view(f"worker:{index}", gradients=each, **known) for index, each in enumerate(gradients)]


def test_the_worker_whose_gradients_were_not_finite_a_step_before_the_others_is_named(view: View) -> None:
    (found,) = not_finite(workers(view, LATER, LATER, LOST))
    assert (found.subject, found.begin, found.severity) == ("worker:2", 1000.0, "serious")
    assert re.search(
        r"worker:2 were the first with NaN or infinity, in step 89 \(.*, 2 of 8 variables, first dense/kernel\)",
        found.sentence,
    )
    assert found.evidence == {
        "global_step": 89, "whose": "one", "variables": 2, "checked": 8, "variable": "dense/kernel"
    }  # fmt: skip
    assert "the batch that worker:2 had" in (first_step(found) or "")


def test_a_worker_that_ended_at_once_is_named_beside_others_that_have_made_its_step(view: View) -> None:
    (found,) = not_finite(workers(view, FINITE, replace(LOST, steps=1), steps=89))
    assert found.subject == "worker:1"


def test_where_all_had_it_in_one_step_nobody_is_blamed(view: View) -> None:
    (found,) = not_finite(workers(view, LOST, LOST, LOST))
    assert found.subject == "cluster" and "all 3 workers had NaN or infinity at once, in step 89" in found.sentence
    assert "learning rate" in (first_step(found) or "")


def test_several_that_had_it_in_the_same_step_are_all_named(view: View) -> None:
    (found,) = not_finite(workers(view, LOST, LATER, LOST))
    assert found.subject == "cluster" and "worker:0 and worker:2 were the first with NaN or infinity" in found.sentence


def test_a_replica_among_finite_ones_of_its_process_is_named(view: View) -> None:
    probe = ProbeStatus(ProbeState.MEASURING, replicas=2, local_replicas=2)
    (found,) = not_finite(workers(view, replace(LOST, replicas=(1,)), probe=probe))
    assert found.subject == "worker:0/replica:1" and found.evidence["whose"] == "one"
    (both,) = not_finite(workers(view, replace(LOST, replicas=(0, 1)), probe=probe))
    assert both.subject == "cluster" and "all 2 replicas" in both.sentence


@pytest.mark.parametrize("steps", [1, MOST_SKIPPED])
def test_steps_that_loss_scaling_skips_are_no_fault(view: View, steps: int) -> None:
    skipped = replace(LOST, steps=steps)
    assert not_finite(workers(view, skipped, LATER, not_finite_since=None)) == []


def test_without_a_loss_gradients_that_stay_so_are_a_fault(view: View) -> None:
    lasting = replace(LOST, steps=MOST_SKIPPED + 1)
    (found,) = not_finite(workers(view, lasting, LATER, not_finite_since=None))
    assert found.subject == "worker:0"


def test_gradients_that_are_finite_again_are_the_end(view: View, frame: MakeFrame) -> None:
    (task,) = workers(view, LOST)
    task.observe(frame(1011.0, training=Training(loss=0.5, finite=True, gradients=FINITE)))
    assert not_finite([task]) == []


def test_beside_workers_that_tell_nothing_the_loss_alone_is_told(view: View) -> None:
    (found,) = not_finite(workers(view, LOST, None))
    assert found.subject == "cluster" and found.sentence.startswith("the loss has not been a number")
    (lasting,) = not_finite(workers(view, replace(LOST, steps=99), None, not_finite_since=None))
    assert lasting.subject == "cluster" and "whose had it first is not known" in lasting.sentence


def test_a_worker_that_has_not_told_of_the_step_yet_may_have_had_it_too(view: View) -> None:
    late = workers(view, LOST, FINITE, steps=88)
    found = lost_gradients(late)
    assert found is not None and found.whose is Whose.UNKNOWN


def test_another_attempt_begins_anew(view: View, frame: MakeFrame, status: Callable[..., TaskStatus]) -> None:
    (task,) = workers(view, LOST)
    task.observe(frame(1011.0, training=None, status=status(attempt=2)))
    assert task.gradients is None


def test_reports_that_come_late_change_no_name(diagnostician: Callable[[int], Diagnostician], frame: MakeFrame) -> None:
    observer = diagnostician(3)
    told = set()
    for second in range(1000, 1012):
        for index in range(3):
            gradients = (LATER, LATER, LOST)[index] if second >= 1002 + (0, 1, 2)[index] else FINITE
            training = Training(global_step=90, finite=gradients is FINITE, gradients=gradients)
            observer.observe(f"worker:{index}", frame(second + 0.3 * index, training=training))
        told |= {each.subject for each in observer.diagnose(second + 0.9).diagnoses}
    assert told == {"worker:2"}
    assert observer.diagnose(1013.0).headline.startswith(
        "the gradients of worker:2 were the first with NaN or infinity"
    )


def test_one_of_a_thousand_workers_is_named(view: View) -> None:
    tasks = workers(view, *[LATER] * 700, LOST, *[LATER] * 299)
    (found,) = not_finite(tasks)
    assert found.subject == "worker:700"
    (all_of_them,) = not_finite(workers(view, *[LOST] * 1000))
    assert "all 1000 workers" in all_of_them.sentence and len(all_of_them.sentence) < 200
