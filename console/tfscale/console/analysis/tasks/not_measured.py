"""Tasks with an unmeasured training process: without a probe, or while another process of the task reports."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.log_clues import UNMEASURED
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState


def not_measured(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each task with unmeasured steps, which ends at the task's next start."""
    return [_describe(task, why) for task in tasks if task.probe and (why := _why(task, task.probe))]


def _why(task: ObservedTask, probe: ProbeStatus) -> str | None:
    ended_well = task.state is TaskState.EXITED and task.ended_well
    if ended_well and task.progressed is None and probe.state is ProbeState.DISABLED:
        # While it runs the headline says so, too, unless there is something worse.
        return f"was not measured: {probe.message}"
    return _why_now(probe) if task.running else None


def _why_now(probe: ProbeStatus) -> str | None:
    if probe.state is ProbeState.ABSENT:
        return f"is neither measured nor repaired: {probe.message}"
    beside = next((note for note in probe.warnings if note.startswith(UNMEASURED)), None)
    return None if beside is None else f"is measured in part: {beside.removeprefix(UNMEASURED)}"


def _describe(task: ObservedTask, why: str) -> Diagnosis:
    begin = task.status.started if task.status and task.status.started is not None else task.at or 0.0
    return Diagnosis("not_measured", task.name, begin, None, "warning", f"{task.name} {why}", evidence={})
