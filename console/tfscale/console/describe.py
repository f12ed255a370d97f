"""Words for the event pane: what a task has become, how far a command has come."""

from __future__ import annotations

from tfscale.console.engine.events import CommandProgressed, Stage
from tfscale.core.analysis.words import signal_name
from tfscale.core.records import Exit, TaskState, TaskStatus


def describe_exit(exit: Exit | None) -> str:
    """How a task ended, in two words: `exited 1`, `killed SIGKILL`."""
    if exit is None or (exit.code is None and exit.signal is None):
        return "ended, how is unknown"
    if exit.signal is not None:
        return f"killed {signal_name(exit.signal)}"
    return f"exited {exit.code}"


def describe_change(status: TaskStatus) -> str:
    """One line for the event pane: what the task has become."""
    because = f" ({status.reason})" if status.reason else ""
    match status.state:
        case TaskState.EXITED:
            return describe_exit(status.exit) + because
        case TaskState.LOST:
            return "lost: its shim died, how it ended cannot be known" + because
        case TaskState.RUNNING | TaskState.STARTING:
            return f"{status.state}, generation {status.generation}, attempt {status.attempt}{because}"
        case _:
            return f"{status.state}{because}"


def describe_progress(command: CommandProgressed) -> str:
    """One line for the event pane: how far a command has come."""
    said = f": {command.message}" if command.message else ""
    generation = f", generation {command.generation}" if command.generation else ""
    match command.stage:
        case Stage.PLANNED:
            return f"{command.verb} planned{generation}{said}"
        case Stage.FAILED:
            return f"{command.verb} failed{said}"
        case Stage.DONE:
            return f"{command.verb} done{generation}{said}"
        case Stage.WORKING:
            return f"{command.verb}{said}"
        case _:
            return f"{command.stage}{said}"
