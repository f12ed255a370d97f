"""Lines of the event pane: the new status of a task, the end of a diagnosis, the progress of a command."""

from __future__ import annotations

from tfscale.console.analysis.finding_kinds import NOT_JUDGED, NOT_JUDGED_WHY, kind_of
from tfscale.console.engine.events import CommandProgressed
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Stage, TaskState, TaskStatus
from tfscale.core.text import elapsed, exit_phrase, signal_name


def status_text(status: TaskStatus) -> str:
    """Return a task's new status as one line."""
    reason = f" ({status.reason})" if status.reason else ""
    match status.state:
        case TaskState.EXITED:
            if status.exit is not None and status.exit.requested and status.exit.signal is not None:
                return f"ended as asked, by {signal_name(status.exit.signal)}{reason}"
            return exit_phrase(status.exit) + reason
        case TaskState.LOST:
            return "lost: its shim died, how it ended cannot be known" + reason
        case TaskState.RUNNING | TaskState.STARTING:
            return f"{status.state}, generation {status.generation}, attempt {status.attempt}{reason}"
        case _:
            return f"{status.state}{reason}"


def end_text(diagnosis: Diagnosis) -> str:
    """Return the end of a diagnosis as one line: the state that holds again, and how long it did not hold.

    For a diagnosis that is no longer judged, nobody knows whether that state holds. An ended straggler's sentence says
    what it was, a restart's its cost and gain.
    """
    if (is_over := kind_of(diagnosis).is_over) is None:
        return diagnosis.sentence
    lasted = elapsed((diagnosis.end or diagnosis.begin) - diagnosis.begin)
    if (reason := diagnosis.evidence.get(NOT_JUDGED)) is not None:
        # "The training has ended, after 84 s" would tell of the training's time.
        return f"{NOT_JUDGED_WHY[str(reason)]}; until then it was so for {lasted}"
    return f"{is_over}, after {lasted}"


def progress_text(command: CommandProgressed) -> str:
    """Return the progress of a command as one line."""
    message = f": {command.message}" if command.message else ""
    generation = f", generation {command.generation}" if command.generation else ""
    match command.stage:
        case Stage.PLANNED:
            return f"{command.verb} planned{generation}{message}"
        case Stage.FAILED:
            return f"{command.verb} failed{message}"
        case Stage.DONE:
            return f"{command.verb} done{generation}{message}"
        case Stage.WORKING:
            return f"{command.verb}{message}"
        case _:
            return f"{command.stage}{message}"
