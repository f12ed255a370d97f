"""Contents of a report, equal for all inputs and formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.run.scaling import Forecast
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.core.cluster.gpu_price import GpuPrice, gpu_hours, hours_text
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, moment

PARTS = ("update", "host", "input", "compute", "transfer", "wait")
"""Parts of a step: its phases, with the all-reduce split into transfer and waiting for a slower worker."""

MOST_POINTS = 512
"""Points of a timeline; a longer run has coarser points, not more of them."""


@dataclass(slots=True)
class PhaseTimeline:
    """Parts of each subject's step over time. The resolution is halved when the timeline is full."""

    subjects: list[str] = field(default_factory=list)
    _at: list[float] = field(default_factory=list)
    _rows: list[dict[str, tuple[float, ...]]] = field(default_factory=list)
    _each: int = 1
    _skipped: int = 0

    def add(self, at: float, findings: Findings) -> None:
        """Add a point: the median parts of every subject at one evaluation; all unknown once steps have ended."""
        self._skipped += 1
        is_training = findings.step_time is not None
        if self._skipped < self._each or not (is_training or self._rows):
            return
        self._skipped = 0
        summaries = findings.subjects if is_training else {}
        row = {name: _parts(summary) for name, summary in summaries.items()}
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
    def parts(self) -> NDArray[np.float64]:
        """(6, k, n) seconds, NaN unknown."""
        unknown = (np.nan,) * len(PARTS)
        rows = [[row.get(name, unknown) for name in self.subjects] for row in self._rows]
        return np.asarray(rows, dtype=float).reshape(len(rows), len(self.subjects), len(PARTS)).transpose(2, 0, 1)


@dataclass(slots=True)
class NumberRange:
    """Range of one number of the training over a run, over all tasks that report the number."""

    first: float
    lowest: float
    highest: float
    last: float | None
    """Last value; None where it is not finite."""

    def add(self, value: float) -> None:
        self.lowest, self.highest, self.last = min(self.lowest, value), max(self.highest, value), value


def _parts(summary: SubjectSummary) -> tuple[float, ...]:
    wait = 0.0 if summary.wait is None else summary.wait
    transfer = None if summary.reduce is None else max(0.0, summary.reduce - wait)
    values = (summary.update, summary.host, summary.input, summary.compute, transfer, wait)
    return tuple(np.nan if value is None else value for value in values)


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Subjects that do equal work, and their results."""

    name: str
    timeline: PhaseTimeline
    subjects: Mapping[str, SubjectSummary]
    """Summaries at the end of the run."""
    steps: int
    begin: float
    end: float
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds by bucket of goodput, and of `worthless` steps; empty where only a part of the run was watched."""
    scaling: tuple[Forecast, ...] = ()
    """Throughput of other sizes relative to one worker, by the ring model."""
    workers: int = 0
    """Replicas that trained together."""
    examples: int | None = None
    """Examples of a step, all workers together; None unknown."""
    training: Mapping[str, NumberRange] = field(default_factory=dict)
    """Ranges of the reported numbers that have a display, by the names of `Training`."""
    findings: tuple[ReportedFinding, ...] = ()
    """Findings of the run, the oldest first."""
    gpus: int | None = None
    """GPUs that the tasks trained on; None unknown, or none."""
    gpu_price: GpuPrice | None = None

    @property
    def rate(self) -> float | None:
        """Steps a second over the whole run."""
        return self.steps / (self.end - self.begin) if self.steps and self.end > self.begin else None

    def gpu_hours(self, seconds: float) -> float | None:
        """Return the GPU-hours of `seconds` of the whole cluster, None where the number of GPUs is unknown."""
        return gpu_hours(self.gpus, seconds) if self.gpus else None

    def price_of(self, seconds: float) -> str | None:
        """Return the cost of `seconds` of the whole cluster: `12.3 GPU-h, 31 USD`; None unknown."""
        if (hours := self.gpu_hours(seconds)) is None:
            return None
        return hours_text(hours) + (f", {self.gpu_price.money(hours)}" if self.gpu_price else "")


@dataclass(frozen=True, slots=True)
class RunReport:
    """Report of one or more runs. Times are Unix seconds, or seconds from the first step for a run without a clock."""

    title: str
    facts: Mapping[str, str]
    groups: tuple[RunGroup, ...]
    has_clock: bool = True

    @property
    def findings(self) -> tuple[tuple[RunGroup, ReportedFinding], ...]:
        """The findings of all groups, each with its group."""
        return tuple((group, finding) for group in self.groups for finding in group.findings)

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        return tuple(finding.diagnosis for _, finding in self.findings)

    def when(self, at: float) -> str:
        """Return a time with its date, for people."""
        return moment(at) if self.has_clock else f"{at:.1f} s"

    def begin_of(self, diagnosis: Diagnosis) -> str:
        """Return the time at which a finding began; `before` the begin of the report's data where it is older."""
        return f"{'before ' if diagnosis.began_earlier else ''}{self.when(diagnosis.begin)}"

    def tick(self, at: float) -> str:
        """Return a time below a plot: the date is in the facts."""
        return clock(at) if self.has_clock else f"{at:.1f} s"
