"""Tasks that run without a probe, because their launcher lost the probe's way in."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.observed_task import ObservedTask
from tfscale.core.records import Diagnosis, ProbeState


def not_measured(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return one diagnosis for each such task; a restart ends it."""
    return [found for task in tasks if task.running and (found := _describe(task)) is not None]


def _describe(task: ObservedTask) -> Diagnosis | None:
    if task.probe is None or task.probe.state is not ProbeState.ABSENT:
        return None
    begin = task.status.started if task.status and task.status.started is not None else task.at or 0.0
    sentence = f"{task.name} is neither measured nor repaired: {task.probe.message}"
    return Diagnosis("not_measured", task.name, begin, None, "warning", sentence, {})
