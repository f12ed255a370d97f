"""Cluster's figures: throughput, and losses on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.run.goodput import PRODUCTIVE
from tfscale.console.engine.model import Snapshot
from tfscale.core.text import UNKNOWN, count, elapsed, four_digits, percent, step_time, whole_percent

_TRAINED, _LONG = 30.0, 600.0
"""Seconds of training, at least as many as the start took, and of a run, from which on goodput is shown: before, it
rises from 0 with each second, and tells only how long ago the start was."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Value with its name, in full and for narrow terminals; the value is empty while it is unknown."""

    value: str
    name: str
    brief: str = ""
    is_named_first: bool = False
    width: int = 0
    """Cells kept for the value, so that the figures beside it stay where they are."""
    is_of_several: bool = False
    """True where it is usually unknown of a task alone."""

    @property
    def short(self) -> str:
        return self.brief or self.name


def figures_of(snapshot: Snapshot) -> list[Figure]:
    """Return the known figures, the most important first."""
    return [figure for figure in all_figures(snapshot) if figure.value]


def all_figures(snapshot: Snapshot) -> list[Figure]:
    """Return the figures that such a cluster may have, the most important first, also while they are unknown."""
    findings = snapshot.findings
    local = findings.local_steps
    lost = None if findings.slowdown is None else max(0.0, 1.0 - 1.0 / max(findings.slowdown, 1.0))
    # Where each worker steps at its own pace, no step is that of all.
    is_asynchronous = any(view.frame is not None and view.frame.coordinator is not None for view in snapshot.tasks)
    common_step = None if is_asynchronous else findings.step_time
    figures = [
        Figure(count(findings.steps_per_second), "steps/s", width=5),
        Figure(count(findings.examples_per_second), "examples/s", "ex/s", width=6),
        *_progress(snapshot),
        Figure(step_time(common_step), f"for {local} steps" if local > 1 else "a step", width=7),
        Figure(percent(findings.efficiency), "efficient", "eff.", width=4, is_of_several=True),
        Figure(loss(snapshot), "loss", is_named_first=True, width=6),
        Figure(percent(goodput(findings)), "goodput", width=4),
        Figure(step_time(findings.transfer), "network", width=7, is_of_several=True),
        Figure(percent(lost or None), "lost to stragglers", "lost", width=4, is_of_several=True),
    ]
    figures = [replace(figure, value="") if figure.value == UNKNOWN else figure for figure in figures]
    return [figure for figure in figures if figure.value or len(snapshot.tasks) > 1 or not figure.is_of_several]


def _progress(snapshot: Snapshot) -> list[Figure]:
    """Return how much is done, and the time that is left, where the length of the training is known."""
    if (training := snapshot.progress) is None or training.share_done is None:
        return []
    left = elapsed(training.time_left or None)
    return [Figure(whole_percent(training.share_done), "done", width=4), Figure(left, "left", width=9)]


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
        trainings = [view.frame.training for view in snapshot.tasks if view.frame and view.frame.training]
        for log in next((training.logs for training in trainings if training.logs), ()):
            yield Figure("NaN" if log.value is None else four_digits(log.value), log.name, is_named_first=True)


def loss(snapshot: Snapshot) -> str:
    """Return the snapshot's loss as text."""
    value = snapshot.loss
    return "NaN" if value is not None and math.isnan(value) else four_digits(value)
