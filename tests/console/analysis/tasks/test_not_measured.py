from collections.abc import Callable

import pytest
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition
from tfscale.console.analysis.headline import headline
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_measured import not_measured
from tfscale.console.analysis.tasks.not_started import why_missing
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskStatus

View = Callable[..., ObservedTask]
ABSENT = ProbeStatus(ProbeState.ABSENT, "PYTHONPATH was removed")


def test_a_task_whose_launcher_lost_the_probe_is_named_with_the_reason(view: View) -> None:
    tasks = [view("worker:0", probe=ABSENT), view("worker:1")]
    (told,) = not_measured(tasks)
    assert (told.kind, told.subject, told.begin, told.severity) == ("not_measured", "worker:0", 0.0, "warning")
    assert told.sentence == "worker:0 is neither measured nor repaired: PYTHONPATH was removed"
    assert headline([told], tasks, ClusterCondition()) == told.sentence


def test_a_second_process_that_trains_is_told(view: View) -> None:
    beside = ProbeStatus(ProbeState.MEASURING, warnings=("a note", "not measured: process 7 trains as well"))
    (told,) = not_measured([view("worker:0", probe=beside), view("worker:1")])
    assert (told.subject, told.severity) == ("worker:0", "warning")
    assert told.sentence == "worker:0 is measured in part: process 7 trains as well"


def test_it_does_not_count_as_reporting(view: View) -> None:
    assert why_missing(view("worker:0", probe=ABSENT)) == "its process runs, but does not report"


def test_a_program_that_ended_without_being_seen_is_told(view: View, died: Callable[..., TaskStatus]) -> None:
    by_hand = ProbeStatus(ProbeState.DISABLED, "the program changes variables by hand")
    ended = view("worker:0", probe=by_hand, status=died(7.0, code=0))
    (told,) = not_measured([ended, view("worker:1", probe=by_hand, status=died(7.0, code=1))])
    assert told.sentence == "worker:0 was not measured: the program changes variables by hand"


@pytest.mark.parametrize("probe", [ABSENT, ProbeStatus(ProbeState.EXPECTED, "none of its processes")])
def test_a_program_that_ended_without_a_probe_is_told(
    view: View, died: Callable[..., TaskStatus], probe: ProbeStatus
) -> None:
    (told,) = not_measured([view("worker:0", probe=probe, status=died(7.0, code=0))])
    assert told.sentence == f"worker:0 was not measured: {probe.message}"


def test_a_task_that_failed_or_waits_for_its_first_step_is_not(view: View, died: Callable[..., TaskStatus]) -> None:
    failed = view("worker:0", probe=ABSENT, status=died(7.0, code=1))
    assert not_measured([failed, view("worker:1"), view("worker:2", probe=None)]) == []


def test_tensorflow_may_take_half_a_minute_to_load(view: View) -> None:
    expected = ProbeStatus(ProbeState.EXPECTED, "none of its processes has loaded TensorFlow")
    early, late = (view("worker:0", probe=expected, at=at) for at in (29.9, 30.0))
    assert not_measured([early]) == []
    assert why_missing(early) == "its process has not loaded TensorFlow so far"
    (told,) = not_measured([late])
    assert told.sentence.startswith("worker:0 has not loaded TensorFlow since its start at ")


def test_a_probe_that_gave_up_is_told_while_its_task_goes_on(view: View) -> None:
    gave_up = ProbeStatus(ProbeState.DISABLED, "the probe failed and measures no more: OSError()")
    (told,) = not_measured([view("worker:0", probe=gave_up), view("worker:1")])
    assert told.sentence == f"worker:0 is not measured: {gave_up.message}"
