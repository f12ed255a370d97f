"""Causes that several failures have."""

from __future__ import annotations

from tfscale.agent.cluster.failure_report import FailureReport, shortened
from tfscale.agent.cluster.restart_budget import Progress
from tfscale.agent.recovery.incident import Incident
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus

W0, W1, W2 = (Task.parse(f"worker:{index}") for index in range(3))
ABORTED = ("InternalError: Collective ops is aborted by: a peer is gone",)


def ended(task: Task, end: Exit, **known: float) -> FailureReport:
    return FailureReport(str(task), TaskStatus(TaskState.EXITED, 3, 1, exit=end), **known)  # type: ignore[arg-type]


def still(task: Task, seconds: float, *, is_inside: bool) -> FailureReport:
    return FailureReport(str(task), TaskStatus(TaskState.RUNNING, 3, 1), still=seconds, is_inside=is_inside)


def incident(*reports: FailureReport) -> Incident:
    of = Incident((W0, W1, W2))
    for report in reports:
        of.add(Task.parse(report.task), report, report.failure(5.0), 5.0)
    return of


def test_the_first_to_fail_names_the_cause_and_not_who_followed() -> None:
    followers = [ended(task, Exit(1, None, at, log=ABORTED)) for task, at in ((W0, 4.0), (W2, 4.1))]
    assert incident(*followers, ended(W1, Exit(None, 9, 4.5))).cause() == (W1, "was killed by SIGKILL")
    assert incident(*followers).cause() == (W0, "exited 1 because its peer was gone")


def test_a_report_that_is_repeated_changes_nothing() -> None:
    lost = FailureReport("worker:1", TaskStatus(TaskState.LOST, 3, 1))
    of = incident(lost)
    of.add(W1, lost, lost.failure(9.0), 9.0)
    assert of.failures[W1].at == 5.0 and of.heard == 9.0


def test_an_exit_with_0_is_a_failure_where_it_is_reported() -> None:
    assert incident(ended(W1, Exit(0, None, 4.0))).cause() == (W1, "exited 0")


def test_who_does_not_wait_in_the_collective_names_a_hang() -> None:
    of = incident(still(W0, 70.0, is_inside=True), still(W1, 65.0, is_inside=False), still(W2, 71.0, is_inside=True))
    assert of.is_hang and of.cause() == (W1, "made no step for 65 s")
    assert incident(still(W0, 70.0, is_inside=True), still(W2, 71.0, is_inside=True)).cause()[0] == W2


def test_a_death_names_the_cause_also_in_a_hang() -> None:
    of = incident(still(W0, 70.0, is_inside=True), ended(W1, Exit(3, None, 4.0)))
    assert not of.is_hang and of.cause() == (W1, "exited 3")


def test_the_progress_is_that_of_the_farthest() -> None:
    of = incident(
        ended(W0, Exit(1, None, 4.0), checkpoint=3.0, global_step=8), ended(W1, Exit(1, None, 4.0), checkpoint=2.0)
    )
    assert of.reached == Progress(3.0, 8)


def test_a_report_is_short_whatever_was_logged() -> None:
    status = TaskStatus(TaskState.EXITED, 3, 1, exit=Exit(1, None, 4.0, log=("x" * 10**6,) * 100), reason="y" * 10**6)
    short = shortened(status)
    assert short.exit is not None and sum(map(len, short.exit.log)) + len(short.reason) < 20_000
