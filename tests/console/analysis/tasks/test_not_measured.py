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
    assert why_missing(view("worker:0", probe=ABSENT)) == ABSENT.message


def test_tasks_with_one_reason_share_a_sentence(view: View) -> None:
    lost = [ProbeStatus(ProbeState.ABSENT, f"PYTHONPATH of its process {pid} was removed") for pid in (7, 8, 9)]
    other = ProbeStatus(ProbeState.ABSENT, "its process 10 runs Python 3.8")
    tasks = [view(f"worker:{index}", probe=probe) for index, probe in enumerate([lost[0], other, *lost[1:]])]
    told = {diagnosis.subject: diagnosis for diagnosis in not_measured(tasks)}
    assert len(told) == 4
    assert told["worker:3"].together == ("worker:0", "worker:2", "worker:3")
    assert told["worker:0"].sentence == told["worker:2"].sentence == told["worker:3"].sentence
    assert told["worker:3"].sentence == (
        "worker:0, worker:2 and worker:3 are neither measured nor repaired; of worker:0: PYTHONPATH of its process 7 "
        "was removed"
    )
    assert told["worker:1"].sentence == f"worker:1 is neither measured nor repaired: {other.message}"
    assert told["worker:1"].together == ()


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


def test_a_task_without_tensorflow_is_told_with_its_age(view: View) -> None:
    expected = ProbeStatus(ProbeState.EXPECTED, "none of its processes has imported TensorFlow (sleep 60)")
    (told,) = not_measured([view("worker:0", probe=expected, at=9.0)])
    assert told.sentence == (
        "worker:0 is not measured: none of its processes has imported TensorFlow (sleep 60), 9.0 s after its start: is "
        "that the command of the training? See its log"
    )


def test_a_young_task_at_work_may_import_something_else_before_tensorflow(view: View) -> None:
    expected = ProbeStatus(ProbeState.EXPECTED, "none of its processes has imported TensorFlow (python train.py)")
    assert not_measured([view("worker:0", probe=expected, at=119.0, cores=0.9)]) == []
    assert not_measured([view("worker:0", probe=expected, at=39.0, cores=0.0, idle_since=31.0)]) == []
    assert not_measured([view("worker:0", probe=expected, at=9.0, cores=0.01)]) != []
    assert not_measured([view("worker:0", probe=expected, at=121.0, cores=0.9)]) != []


def test_tasks_that_differ_in_their_command_share_a_sentence(view: View) -> None:
    past = [f"its process {pid} (python train.py --task {pid}) has loaded TensorFlow past the probe" for pid in (7, 8)]
    tasks = [view(f"worker:{pid}", probe=ProbeStatus(ProbeState.ABSENT, why)) for pid, why in enumerate(past)]
    assert {diagnosis.together for diagnosis in not_measured(tasks)} == {("worker:0", "worker:1")}


def test_a_task_that_has_loaded_tensorflow_is_only_waited_for(view: View) -> None:
    loaded = view("worker:0", probe=ProbeStatus(ProbeState.LOADED, "its process 7 is importing TensorFlow"))
    assert not_measured([loaded]) == []
    assert why_missing(loaded) == "its process 7 is importing TensorFlow"


def test_a_probe_that_gave_up_is_told_while_its_task_goes_on(view: View) -> None:
    gave_up = ProbeStatus(ProbeState.DISABLED, "the probe failed and measures no more: OSError()")
    (told,) = not_measured([view("worker:0", probe=gave_up), view("worker:1")])
    assert told.sentence == f"worker:0 is not measured: {gave_up.message}"
