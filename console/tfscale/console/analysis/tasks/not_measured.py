"""Tasks with a training process that is not measured: it has no probe, or another process of the task reports."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.log_clues import UNMEASURED
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import clock

PATIENCE = 30.0
"""Seconds from a task's start until it is named for having loaded no TensorFlow. An import takes as long on a busy
host: with less each slow start would be named; with more a wrong command is found later."""
_NEVER = (ProbeState.DISABLED, ProbeState.ABSENT, ProbeState.EXPECTED)


def not_measured(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each task whose steps are not measured; it ends at the task's next start."""
    return [_describe(task, why) for task in tasks if task.probe and (why := _why(task, task.probe))]


def _why(task: ObservedTask, probe: ProbeStatus) -> str | None:
    ended_well = task.state is TaskState.EXITED and task.ended_well
    if ended_well and task.progressed is None and probe.state in _NEVER:
        return f"was not measured: {probe.message}"
    return _why_now(task, probe) if task.running else None


def _why_now(task: ObservedTask, probe: ProbeStatus) -> str | None:
    if probe.state is ProbeState.ABSENT:
        return f"is neither measured nor repaired: {probe.message}"
    if probe.state is ProbeState.EXPECTED:
        return _never_loaded(task)
    if probe.state is ProbeState.DISABLED:
        return f"is not measured: {probe.message}"
    beside = next((note for note in probe.warnings if note.startswith(UNMEASURED)), None)
    return None if beside is None else f"is measured in part: {beside.removeprefix(UNMEASURED)}"


def _never_loaded(task: ObservedTask) -> str | None:
    started = task.status.started if task.status else None
    if started is None or task.at is None or task.at - started < PATIENCE:
        return None
    return (
        f"has not loaded TensorFlow since its start at {clock(started)}, so nothing is measured: is its command "
        "that of the training? See its log"
    )


def _describe(task: ObservedTask, why: str) -> Diagnosis:
    begin = task.status.started if task.status and task.status.started is not None else task.at or 0.0
    return Diagnosis("not_measured", task.name, begin, None, "warning", f"{task.name} {why}", evidence={})
