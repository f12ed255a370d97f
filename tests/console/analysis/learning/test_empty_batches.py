from collections.abc import Callable

from tfscale.console.analysis.learning.empty_batches import PATIENCE, empty_batches
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

View = Callable[..., ObservedTask]


def test_who_has_had_empty_batches_for_some_seconds_is_named(view: View) -> None:
    empty = ProbeStatus(ProbeState.MEASURING, empty_since=100.0)
    tasks = [
        view("worker:0", probe=ProbeStatus(ProbeState.MEASURING), progressed=130.0),
        view("worker:1", probe=empty, progressed=100.0 + PATIENCE),
        view("worker:2", probe=empty, progressed=99.9 + PATIENCE),
    ]
    (found,) = empty_batches(tasks)
    assert (found.kind, found.subject, found.begin) == ("empty_batches", "worker:1", 100.0)
    assert "worker:1 has had empty batches since" in found.sentence


def test_of_a_task_that_does_not_run_nothing_is_said(view: View, died: Callable[..., object]) -> None:
    empty = ProbeStatus(ProbeState.MEASURING, empty_since=100.0)
    assert empty_batches([view("worker:0", probe=empty, progressed=130.0, status=died(131.0, code=0))]) == []
