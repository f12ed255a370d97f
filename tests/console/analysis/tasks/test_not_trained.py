from collections.abc import Callable
from dataclasses import replace

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_trained import not_trained
from tfscale.core.log_clues import UNTRAINED
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskStatus

View = Callable[..., ObservedTask]
PROBE = ProbeStatus(ProbeState.WAITING, warnings=("input not measured", f"{UNTRAINED}no GPU here"))


def test_a_task_that_ended_well_without_a_step_is_named_with_the_reason(
    view: View, died: Callable[..., TaskStatus]
) -> None:
    (told,) = not_trained([view("worker:0", status=died(7.0, code=0), probe=PROBE), view("worker:1")])
    assert (told.kind, told.subject, told.begin, told.severity) == ("not_trained", "worker:0", 7.0, "warning")
    assert told.sentence == "worker:0 has ended without a training step: no GPU here"


def test_a_failure_a_running_task_and_one_without_a_known_reason_are_not(
    view: View, died: Callable[..., TaskStatus]
) -> None:
    plain = replace(PROBE, warnings=("input not measured",))
    assert not_trained([view("worker:0", status=died(7.0, code=1), probe=PROBE), view("worker:1", probe=PROBE)]) == []
    assert not_trained([view("worker:0", status=died(7.0, code=0), probe=plain)]) == []
