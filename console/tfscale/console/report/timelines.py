"""Numbers of a run over time: parts of steps, gauges of hosts and GPUs, numbers of the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.engine.model import TaskView
from tfscale.console.history.gauges import Gauges
from tfscale.console.wire.frames import frame_gauges
from tfscale.core.records.training import Training, training_numbers

PARTS = ("update", "host", "input", "compute", "transfer", "wait")
"""Parts of a step: its phases, with the all-reduce split into transfer and waiting for a slower worker."""

MOST_POINTS = 512
"""Points of a timeline; a longer run has coarser points, not more of them."""

Row = Mapping[str, tuple[float | None, ...]]
"""Numbers by subject; None unknown."""


@dataclass(slots=True)
class Timeline:
    """Numbers of each subject over time. The resolution is halved when the timeline is full."""

    NAMES: ClassVar[tuple[str, ...]]
    subjects: list[str] = field(default_factory=list)
    _at: list[float] = field(default_factory=list)
    _rows: list[Row] = field(default_factory=list)
    _each: int = 1
    _skipped: int = 0

    def _add(self, at: float, make_row: Callable[[], Row]) -> None:
        """Add a point, if the resolution has one here; nothing before the first that is known."""
        self._skipped += 1
        if self._skipped < self._each or not ((row := make_row()) or self._rows):
            return
        self._skipped = 0
        self.subjects += [name for name in row if name not in self.subjects]
        self._at.append(at)
        self._rows.append(row)
        if len(self._at) > MOST_POINTS:
            self._at, self._rows, self._each = self._at[::2], self._rows[::2], 2 * self._each

    @property
    def at(self) -> NDArray[np.float64]:
        """(k,) times of the points."""
        return np.asarray(self._at)

    @property
    def values(self) -> NDArray[np.float64]:
        """(names, k, n) numbers, NaN unknown."""
        unknown = (None,) * len(self.NAMES)
        rows = [[row.get(name, unknown) for name in self.subjects] for row in self._rows]
        values = np.asarray(rows, dtype=float).reshape(len(rows), len(self.subjects), len(self.NAMES))
        return values.transpose(2, 0, 1)


@dataclass(slots=True)
class PhaseTimeline(Timeline):
    """Median parts of each subject's step, in seconds; all unknown once steps have ended."""

    NAMES = PARTS

    def add(self, at: float, findings: Findings) -> None:
        """Add the summaries of one evaluation."""
        subjects = findings.subjects if findings.step_time is not None else {}
        self._add(at, lambda: {name: _parts(summary) for name, summary in subjects.items()})


@dataclass(slots=True)
class GaugeTimeline(Timeline):
    """Gauges of each task's host and its GPUs."""

    NAMES = Gauges._fields

    def add(self, at: float, views: Sequence[TaskView]) -> None:
        """Add the newest gauges of each task that is heard of."""
        self._add(at, lambda: {str(view.task): frame_gauges(view.frame) for view in views if _is_heard(view)})


@dataclass(slots=True)
class TrainingTimeline(Timeline):
    """Numbers of the training, each of the task that reported it first, which `owners` names."""

    NAMES = ("value",)
    owners: dict[str, str] = field(default_factory=dict)
    _newest: dict[str, Training | None] = field(default_factory=dict)
    """Training of each task at the newest point: after a task's end there are no points of it."""

    def add(self, at: float, views: Sequence[TaskView]) -> None:
        """Add the newest numbers."""
        self._add(at, lambda: self._row([view for view in views if _is_heard(view)]))

    def _row(self, views: Sequence[TaskView]) -> Row:
        row: dict[str, tuple[float]] = {}
        for view in views:
            task, training = str(view.task), view.frame.training if view.frame else None
            if view.has_ended and training == self._newest.get(task):
                continue
            self._newest[task] = training
            for name, value in training_numbers(training).items():
                if self.owners.setdefault(name, task) == task:
                    row[name] = (value,)
        return row


def _is_heard(view: TaskView) -> bool:
    return view.frame is not None and not view.is_stale


def _parts(summary: SubjectSummary) -> tuple[float | None, ...]:
    wait = 0.0 if summary.wait is None else summary.wait
    transfer = None if summary.reduce is None else max(0.0, summary.reduce - wait)
    return (summary.update, summary.host, summary.input, summary.compute, transfer, wait)
