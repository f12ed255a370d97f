"""Incident: failures of tasks that restart together, and the verdict about them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tfscale.agent.cluster.failure_report import FailureReport, Verdict
from tfscale.agent.cluster.restart_budget import Progress
from tfscale.core.cluster.task import Task
from tfscale.core.failure.task_failure import Failure, culprit


@dataclass(slots=True)
class Incident:
    """Failures of the tasks in `scope`, which restart together."""

    scope: tuple[Task, ...]
    reports: dict[Task, FailureReport] = field(default_factory=dict)
    """Newest report of each task."""
    failures: dict[Task, Failure] = field(default_factory=dict)
    """End of each task that has ended."""
    failed: int = 0
    """Newest generation that is reported."""
    launched: int = 0
    """Generation of its newest restart, 0 before the first."""
    is_under_way: bool = False
    """True while that restart is carried out."""
    begun: float = 0.0
    """Time of its first report on the loop's clock."""
    tries: int = 0
    """Tries in a row to restart its tasks that could not begin."""
    trouble: str = ""
    """Reason why the last of these tries could not begin."""
    troubled: float | None = None
    """Time on the loop's clock since which the tasks could not be restarted, None while nothing hinders a restart."""
    waited: float = 0.0
    """Seconds for which a command had not started its tasks when that was reported: a hindrance of before."""
    move_tried: float | None = None
    """Time on that clock of the last try to place the tasks anew."""
    obstacle: str = ""
    """Reason for which the tasks could not be placed anew."""
    blamed: set[str] = field(default_factory=set)
    """Hosts of which a failure was counted for it."""
    absent: set[str] = field(default_factory=set)
    """Hosts whose agents did not answer when it was decided about."""
    lost: set[str] = field(default_factory=set)
    """Hosts that ended with their tasks, which is why the others failed."""
    cordon_tried: set[str] = field(default_factory=set)
    """Hosts without which it was tried to place the tasks because they failed too often."""
    words: str = ""
    due: float | None = None
    """Time of its restart on the loop's clock."""
    final: Verdict | None = None
    heard: float = 0.0
    """Time of the newest report on the loop's clock."""
    driver: asyncio.Task[None] | None = None

    @property
    def generation(self) -> int:
        """Newest generation of this incident, after a later command for its tasks."""
        return max(self.launched, self.failed)

    @property
    def reached(self) -> Progress:
        reached = Progress()
        for report in self.reports.values():
            reached = reached.with_other(report.reached)
        return reached

    @property
    def is_hang(self) -> bool:
        """True while no task has ended."""
        return not self.failures

    def add(self, task: Task, report: FailureReport, failure: Failure | None, now: float) -> None:
        """Take in a report, also a repeated report."""
        self.reports[task], self.heard = report, now
        self.failed = max(self.failed, report.status.generation)
        self.waited = max(self.waited, report.unstarted or 0.0)
        if failure is not None:
            self.failures.setdefault(task, failure)

    def drop(self, task: Task) -> None:
        """Forget the failure of a task."""
        del self.reports[task], self.failures[task]

    def first(self) -> Failure:
        """Return the first end that is not the consequence of another, as far as known."""
        return culprit(tuple(self.failures.values()))

    def cause(self) -> tuple[Task, str]:
        """Return the task that has failed first, and how."""
        if self.is_hang:
            late = {task: report for task, report in self.reports.items() if not report.is_inside} or self.reports
            task = max(late, key=lambda each: late[each].still or 0.0)
            return task, late[task].how
        first = self.first()
        return Task.parse(first.task), f"{first.how}{' because its peer was gone' * first.followed}"

    def verdict(self, now: float) -> Verdict:
        """Return the verdict at `now` on the loop's clock."""
        seconds = None if self.due is None else max(0.0, self.due - now)
        return self.final or Verdict(self.words, seconds)
