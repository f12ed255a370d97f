"""Legal transitions of a task's state, and the log's line for each. Standard library alone."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping

from tfscale.core.failure.clues import find_clue
from tfscale.core.log_clues import EXPLAINED
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import exit_phrase

TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: frozenset({TaskState.STARTING}),
    TaskState.STARTING: frozenset({TaskState.RUNNING, TaskState.EXITED, TaskState.LOST}),
    TaskState.RUNNING: frozenset({TaskState.STOPPING, TaskState.EXITED, TaskState.LOST}),
    TaskState.STOPPING: frozenset({TaskState.STOPPING, TaskState.EXITED, TaskState.LOST}),
    TaskState.EXITED: frozenset({TaskState.STARTING}),
    TaskState.LOST: frozenset({TaskState.STARTING}),
}
"""States that may follow each state; a test compares the table with the diagram in docs/how-it-works/ownership.md."""


class InvalidTransition(Exception):
    """A transition outside the table: an error of the agent. The text has the task's newest states."""

    def __init__(self, story: Iterable[TaskStatus], state: TaskState) -> None:
        steps = [f"{status.state} in {_attempt(status)} {status.reason!r}" for status in story]
        super().__init__(f"{state} must not follow {steps[-1]}; the story so far: {'; '.join(steps)}")


def log_transition(logger: logging.Logger, status: TaskStatus, command: tuple[str, ...], adopted: bool) -> None:
    """Write one line about the state that a task has just reached."""
    process = f"process {status.pid} ({_attempt(status)})"
    match status.state:
        case TaskState.STARTING:
            logger.debug("starting %s: %s", _attempt(status), status.reason)
        case TaskState.RUNNING if adopted:
            logger.info("adopted %s", process)
        case TaskState.RUNNING:
            logger.info("started %s as %s", shlex.join(command), process)
        case TaskState.STOPPING:
            logger.info("stopping %s: %s", process, status.reason)
        case TaskState.EXITED:
            _log_exit(logger, status, process)
        case TaskState.LOST:
            logger.error("lost %s: %s", process, status.reason)


def _log_exit(logger: logging.Logger, status: TaskStatus, process: str) -> None:
    end = status.exit
    assert end is not None
    if status.pid is None:
        logger.error("%s (%s)", status.reason, _attempt(status))
        return
    clue = find_clue(end.log)
    why = f": {clue.line.removeprefix(EXPLAINED)}" if clue is not None and clue.kind == "explained" else ""
    how = f"{exit_phrase(end)}{' as asked' * end.requested}{why}"
    logger.log(logging.INFO if end.well else logging.ERROR, "%s %s", process, how)


def has_finished(status: TaskStatus) -> bool:
    """Decide whether a task has ended well without being asked to."""
    end = status.exit
    return status.state is TaskState.EXITED and end is not None and end.code == 0 and not end.requested


def _attempt(status: TaskStatus) -> str:
    return f"generation {status.generation}, attempt {status.attempt}"
