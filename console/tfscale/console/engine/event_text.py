"""Lines of the event pane: the new status of a task, the end of a diagnosis, the progress of a command."""

from __future__ import annotations

from tfscale.console.engine.events import CommandProgressed
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Stage, TaskState, TaskStatus
from tfscale.core.text import elapsed, exit_phrase

_ENDS = {
    "slowdown": "steps are as fast as before again, or were started anew",
    "pauses": "pauses no more",
    "imbalance": "the work is even again",
    "saturation": "no longer at this limit",
    "crash": "runs again",
    "hang": "no longer stuck",
    "still": "no longer still",
    "cut_off": "its host is heard again",
    "unreachable": "the console reaches its agent again, or nobody knows why not",
    "blocked": "its threads go on",
    "slow_link": "the link is as the others again, or carries nothing",
    "wrong_speed": "no longer known",
    "not_started": "no longer waited for",
    "not_trained": "was started again",
    "not_measured": "is measured, or has ended",
    "unused_gpus": "uses its GPUs, or has ended",
    "empty_batches": "its batches have examples again, or it has ended",
    "not_finite": "loss and gradients are numbers again, or it was restarted",
}
"""Meaning of the end of a diagnosis, by its kind."""


def status_text(status: TaskStatus) -> str:
    """Return a task's new status as one line."""
    reason = f" ({status.reason})" if status.reason else ""
    match status.state:
        case TaskState.EXITED:
            return exit_phrase(status.exit) + reason
        case TaskState.LOST:
            return "lost: its shim died, how it ended cannot be known" + reason
        case TaskState.RUNNING | TaskState.STARTING:
            return f"{status.state}, generation {status.generation}, attempt {status.attempt}{reason}"
        case _:
            return f"{status.state}{reason}"


def end_text(diagnosis: Diagnosis) -> str:
    """Return the end of a diagnosis as one line: what holds again, and how long it did not.

    The sentence of a straggler that has ended tells what it was, and that of a restart what it has cost and gained.
    """
    if diagnosis.kind in ("straggler", "restart"):
        return diagnosis.sentence
    lasted = elapsed((diagnosis.end or diagnosis.begin) - diagnosis.begin)
    return f"{_ENDS.get(diagnosis.kind, 'is over')}, after {lasted}"


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
