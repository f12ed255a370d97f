"""Cluster's figures: throughput, and losses on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.run.goodput import PRODUCTIVE
from tfscale.console.engine.model import Snapshot
from tfscale.core.records.training import Training
from tfscale.core.text import UNKNOWN, count, four_digits, percent, step_time

_TRAINED, _LONG = 30.0, 600.0
"""Seconds of training, at least as many as the start took, and of a run, from which on goodput is shown: before, it
rises from 0 with each second, and tells only how long ago the start was."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Value with its name, in full and for narrow terminals."""

    value: str
    name: str
    brief: str = ""
    is_named_first: bool = False

    @property
    def short(self) -> str:
        return self.brief or self.name


def figures_of(snapshot: Snapshot) -> list[Figure]:
    """Return the known figures, the most important first."""
    findings = snapshot.findings
    local = findings.local_steps
    lost = None if findings.slowdown is None else max(0.0, 1.0 - 1.0 / max(findings.slowdown, 1.0))
    # Where each worker steps at its own pace, no step is that of all.
    is_asynchronous = any(view.frame is not None and view.frame.coordinator is not None for view in snapshot.tasks)
    common_step = None if is_asynchronous else findings.step_time
    figures = [
        Figure(count(findings.steps_per_second), "steps/s"),
        Figure(count(findings.examples_per_second), "examples/s", "ex/s"),
        Figure(step_time(common_step), f"for {local} steps" if local > 1 else "a step"),
        Figure(percent(efficiency(findings)), "efficient", "eff."),
        Figure(percent(goodput(findings)), "goodput"),
        Figure(loss(snapshot), "loss", is_named_first=True),
        Figure(percent(lost or None), "lost to stragglers", "to stragglers"),
        Figure(step_time(findings.transfer), "network"),
    ]
    return [figure for figure in figures if figure.value != UNKNOWN]


def efficiency(findings: Findings) -> float | None:
    """Return the scaling efficiency, 0 to 1: a worker's own work over the step; None without a collective.

    The rest of the step is the all-reduce and its waits. A single worker needs no all-reduce, so N workers make N times
    this share of its steps.
    """
    lags = [own.lag for own in findings.subjects.values() if own.lag is not None and own.wait is not None]
    if len(lags) < 2 or not findings.step_time:
        return None
    return min(1.0, median(lags) / findings.step_time)


def goodput(findings: Findings) -> float | None:
    """Return the share of the run's time spent in steps that count; None while its start alone decides that share."""
    spent = findings.spent
    total, began = sum(spent.values()), spent.get("start", 0.0) + spent.get("compile", 0.0)
    if total < _LONG and total - began < max(began, _TRAINED):
        return None
    return spent[PRODUCTIVE] / total if spent.get(PRODUCTIVE) else None


def logs_of(snapshot: Snapshot) -> Iterator[Figure]:
    """Yield what Keras logs of the first task that logs something; nothing without training."""
    if snapshot.findings.condition.may_be_judged:
        for log in next((training.logs for training in _trainings(snapshot) if training.logs), ()):
            yield Figure("NaN" if log.value is None else four_digits(log.value), log.name, is_named_first=True)


def _trainings(snapshot: Snapshot) -> list[Training]:
    return [view.frame.training for view in snapshot.tasks if view.frame and view.frame.training]


def loss(snapshot: Snapshot) -> str:
    """Return the first task's loss; `NaN` if any task's loss is not finite, unknown without training."""
    trainings = _trainings(snapshot)
    if any(training.finite is False for training in trainings):
        return "NaN"
    if not snapshot.findings.condition.may_be_judged:
        return UNKNOWN
    value = next((training.loss for training in trainings if training.loss is not None), None)
    return four_digits(value)
