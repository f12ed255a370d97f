"""Report of an agent that its task has failed, hangs or was left unstarted, and the acting lead's verdict about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfscale.agent.cluster.restart_budget import Progress
from tfscale.core.cluster.task import Task
from tfscale.core.failure.task_failure import Failure, failure_of
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import duration

_MOST_LINES = 16
_MOST_LINE = 1000
"""Characters of a log's line in a report: enough to tell why the task has ended."""


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Failure of one task, as its own agent knows it."""

    task: str
    status: TaskStatus
    checkpoint: float | None = None
    """Time at which its newest checkpoint was written, Unix seconds."""
    global_step: int | None = None
    still: float | None = None
    """Seconds without a step, of a task that runs."""
    is_inside: bool = False
    """True where the task runs and waits in a collective."""
    unstarted: float | None = None
    """Seconds for which a start is awaited that a command has announced, that of the status's generation; or for which
    others that were started in it have waited for this task."""

    @property
    def key(self) -> tuple[int, int]:
        """(generation, attempt)."""
        return self.status.generation, self.status.attempt

    @property
    def reached(self) -> Progress:
        return Progress(self.checkpoint, self.global_step)

    def failure(self, at: float) -> Failure | None:
        """Return the end of the task; None while it runs. `at` stands for its time where that is not known."""
        if self.still is not None:
            return None
        if self.unstarted is not None:
            return Failure(self.task, *self.key, at - self.unstarted, None, None, unstarted=True)
        end = self.status.exit
        failed = failure_of(self.task, self.status, at)
        if failed is None and self.status.state is TaskState.EXITED and end is not None:
            return Failure(self.task, *self.key, end.at, end.code, end.signal)
        return failed

    @property
    def how(self) -> str:
        """Words about a task that makes no step."""
        return f"made no step for {duration(self.still or 0.0)}"


def unstarted_report(task: Task, generation: int, seconds: float) -> FailureReport:
    """Return the report that nothing was heard for so long of a start of a task in this generation."""
    return FailureReport(str(task), TaskStatus(TaskState.PENDING, generation), unstarted=seconds)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision of the acting lead about a reported failure."""

    words: str = ""
    """Fate of the task; empty while that is not decided."""
    seconds: float | None = None
    """Time until the task's restart."""
    is_final: bool = False
    """True where the task is left as it is, and its failure need not be reported again."""
    gave_up: bool = False
    """True where the task is left because its restarts are spent, or bring nothing."""


def shortened(status: TaskStatus) -> TaskStatus:
    """Return a status that is short enough for a report, whatever was written to the task's log."""
    end = status.exit
    log = () if end is None else tuple(line[:_MOST_LINE] for line in end.log[:_MOST_LINES])
    return replace(status, reason="", exit=None if end is None else replace(end, log=log))
