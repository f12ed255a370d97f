"""Tasks whose TensorFlow or Keras lacks private names that hooks or repairs of tfscale need."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.log_clues import SHOWS_LESS, UNFIT
from tfscale.core.records.diagnosis import Diagnosis

_SEVERITIES = {UNFIT: "warning", SHOWS_LESS: "info"}
"""Severities by the begin of the probe's notes, the graver first."""


def not_fitting(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return one diagnosis for all running tasks that lack the same names; a task leaves it at its next start."""
    lacking: dict[tuple[str, ...], list[ObservedTask]] = {}
    for task in tasks:
        if task.running and task.probe and (notes := _notes(task.probe.warnings)):
            lacking.setdefault(notes, []).append(task)
    return [_describe(notes, group) for notes, group in lacking.items()]


def _notes(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the notes about names that are lacking, the gravest first."""
    return tuple(warning for begin in _SEVERITIES for warning in warnings if warning.startswith(begin))


def _describe(notes: Sequence[str], group: Sequence[ObservedTask]) -> Diagnosis:
    begin = min(task.status.started or 0.0 if task.status else task.at or 0.0 for task in group)
    subject, whose = (CLUSTER, "") if group[1:] else (group[0].name, f"{group[0].name}: ")
    gravest = next(begin for begin in _SEVERITIES if notes[0].startswith(begin))
    more = f" (and {len(notes) - 1} more, on the page of {group[0].name})" if notes[1:] else ""
    sentence = f"{whose}{notes[0].removeprefix(gravest)}{more}"
    return Diagnosis("not_fitting", subject, begin, None, _SEVERITIES[gravest], sentence, evidence={})
