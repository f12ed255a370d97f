from collections.abc import Callable

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_fitting import not_fitting
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.task_status import TaskStatus
from tfscale.trainer.probe.report.status import Status

View = Callable[..., ObservedTask]
FIT = "fit not repaired: Keras 3.99 has no Trainer.fit; install Keras 3.15"
PREDICT = "predict not repaired: Keras 3.99 has no Trainer.predict; install Keras 3.15"


def probe(*faults: str) -> ProbeStatus:
    return Status(faults=faults, notes=("a note",)).record


def test_what_all_tasks_lack_is_told_once(view: View) -> None:
    (told,) = not_fitting([view(f"worker:{index}", probe=probe(FIT)) for index in range(2)])
    assert (told.kind, told.subject, told.severity, told.sentence) == ("not_fitting", "cluster", "warning", FIT)


def test_a_task_with_another_version_is_named_and_further_faults_are_counted(view: View) -> None:
    (told,) = not_fitting([view("worker:0", probe=probe(FIT, PREDICT)), view("worker:1", probe=probe())])
    assert (told.subject, told.sentence) == ("worker:0", f"worker:0: {FIT} (and 1 more, on the page of worker:0)")


def test_a_task_that_has_ended_is_not_told(view: View, died: Callable[..., TaskStatus]) -> None:
    assert not_fitting([view("worker:0", probe=probe(FIT), status=died(7.0, code=0))]) == []
