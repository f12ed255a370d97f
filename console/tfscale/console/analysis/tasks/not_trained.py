"""Tasks that ended well without a single step, for a reason that the probe knows, such as missing GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.log_clues import UNTRAINED
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import TaskState


def not_trained(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each task that trains nothing, which ends at the task's next start."""
    return [_describe(task, reason) for task in tasks if (reason := _reason(task)) is not None]


def _reason(task: ObservedTask) -> str | None:
    ended_well = task.state is TaskState.EXITED and task.status and task.status.exit and task.status.exit.well
    if not ended_well or task.probe is None:
        return None
    return next((note for note in task.probe.warnings if note.startswith(UNTRAINED)), None)


def _describe(task: ObservedTask, reason: str) -> Diagnosis:
    assert task.status is not None and task.status.exit is not None
    sentence = f"{task.name} has ended without a training step: {reason.removeprefix(UNTRAINED)}"
    return Diagnosis("not_trained", task.name, task.status.exit.at, None, "warning", sentence, evidence={})
