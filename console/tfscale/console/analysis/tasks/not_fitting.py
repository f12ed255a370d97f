"""Tasks whose TensorFlow or Keras lacks private names that hooks or repairs of tfscale need."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.log_clues import UNFIT
from tfscale.core.records.diagnosis import Diagnosis


def not_fitting(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return one diagnosis for all running tasks that lack the same names; a task leaves it at its next start."""
    lacking: dict[tuple[str, ...], list[ObservedTask]] = {}
    for task in tasks:
        if task.running and task.probe and (faults := _faults(task.probe.warnings)):
            lacking.setdefault(faults, []).append(task)
    return [_describe(faults, group) for faults, group in lacking.items()]


def _faults(warnings: Sequence[str]) -> tuple[str, ...]:
    return tuple(warning.removeprefix(UNFIT) for warning in warnings if warning.startswith(UNFIT))


def _describe(faults: Sequence[str], group: Sequence[ObservedTask]) -> Diagnosis:
    begin = min(task.status.started or 0.0 if task.status else task.at or 0.0 for task in group)
    subject, whose = (CLUSTER, "") if group[1:] else (group[0].name, f"{group[0].name}: ")
    more = f" (and {len(faults) - 1} more, on the page of {group[0].name})" if faults[1:] else ""
    return Diagnosis("not_fitting", subject, begin, None, "warning", f"{whose}{faults[0]}{more}", evidence={})
