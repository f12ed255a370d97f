from collections.abc import Callable

from tfscale.console.analysis.findings import is_calm
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_fitting import not_fitting
from tfscale.core.log_clues import UNFIT
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.task_status import TaskStatus
from tfscale.trainer.probe.report.status import Status

View = Callable[..., ObservedTask]
FIT = "does not fit: fit not repaired: Keras 3.99 has no Trainer.fit; install Keras 3.15"
PREDICT = "does not fit: predict not repaired: Keras 3.99 has no Trainer.predict; install Keras 3.15"

PAUSES = "shows less: pauses for compilation not shown: TensorFlow 2.12 has no _create; install TensorFlow 2.21"


def probe(*faults: str) -> ProbeStatus:
    return Status(faults=faults, notes=("a note",)).record


def test_what_all_tasks_lack_is_told_once(view: View) -> None:
    (told,) = not_fitting([view(f"worker:{index}", probe=probe(FIT)) for index in range(2)])
    assert (told.kind, told.subject, told.severity, told.sentence) == (
        "not_fitting",
        "cluster",
        "warning",
        FIT.removeprefix(UNFIT),
    )


def test_a_task_with_another_version_is_named_and_further_faults_are_counted(view: View) -> None:
    (told,) = not_fitting([view("worker:0", probe=probe(FIT, PREDICT)), view("worker:1", probe=probe())])
    assert (told.subject, told.sentence) == (
        "worker:0",
        f"worker:0: {FIT.removeprefix(UNFIT)} (and 1 more, on the page of worker:0)",
    )


def test_a_task_that_has_ended_is_not_told(view: View, died: Callable[..., TaskStatus]) -> None:
    assert not_fitting([view("worker:0", probe=probe(FIT), status=died(7.0, code=0))]) == []


def test_names_without_which_steps_and_phases_are_the_same_are_no_trouble(view: View) -> None:
    (told,) = not_fitting([view("worker:0", probe=probe(PAUSES))])
    assert (told.severity, is_calm(told)) == ("info", True) and told.sentence.startswith("worker:0: pauses for")
    (told,) = not_fitting([view("worker:0", probe=probe(PAUSES, FIT))])
    assert (told.severity, is_calm(told)) == ("warning", False) and told.sentence.startswith("worker:0: fit not")
