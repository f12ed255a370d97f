"""Contents of a report, equal for all inputs and formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.console.report.timelines import GaugeTimeline, PhaseTimeline, TrainingTimeline
from tfscale.core.cluster.gpu_price import GpuPrice, gpu_hours, hours_text
from tfscale.core.comparison.size_forecast import Forecast
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, elapsed, moment


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
    """Ranges of the reported numbers that are shown: by the names of `Training`, and Keras's logs by theirs."""
    gauges: GaugeTimeline = field(default_factory=GaugeTimeline)
    curves: TrainingTimeline = field(default_factory=TrainingTimeline)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Versions, program and cluster of the run, by their names for people."""
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
        """Return the cost of `seconds` of the whole cluster: `12 GPU-h, 31 USD`; None unknown."""
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

    @property
    def has_steps(self) -> bool:
        return any(group.timeline.subjects for group in self.groups)

    @property
    def has_training(self) -> bool:
        return any(group.training for group in self.groups)

    @property
    def longest(self) -> float:
        """Seconds of the longest of the runs."""
        return max(group.end - group.begin for group in self.groups)

    def tick(self, at: float, begin: float) -> str:
        """Return a time below a plot: its date is in the facts. Of several runs it is that since their begins."""
        if not self.has_clock:
            return f"{at:.1f} s"
        return clock(at) if len(self.groups) == 1 else elapsed(at - begin)
